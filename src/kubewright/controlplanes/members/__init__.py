"""The members of an etcd: adds and removes one at a time, without ever losing the majority.

Theory.      Whether an instance of etcd runs and whether it is a member are two things. A new member begins
             as a learner, without a vote, and is promoted when it has all data; a member that is not wanted
             is removed before its instance ends. Each change is decided from what the members themselves
             answer.
Map.         ``decide`` which change is next (pure)
             ``client`` asks the members, and changes them
"""
