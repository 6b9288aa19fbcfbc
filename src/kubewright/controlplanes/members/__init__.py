"""The members of an etcd: how it grows, shrinks and replaces one, without ever losing its majority.

Theory.      Whether an instance of etcd runs and whether it is a member are two things. A new member begins
             as a learner, which has no vote, and gets one when it has all data; a member that is not wanted
             is removed before its instance ends. One change at a time, each decided from what the members
             themselves say.
Map.         ``decide``   which change is next (pure)
             ``client``   asks the members, and changes them
Floor        part of ``controlplanes``.
"""
