"""``controlplane.cluster.x-k8s.io/v1alpha4``: control planes and their three components as objects.

Map.         ``v1alpha4``  the kinds, with the names and fields of Cluster API Provider Nested
             ``snapshots`` the kinds of copies of their data
             ``names``     strings that other programs parse, and types and reasons of conditions
             ``schedules`` cron expressions in a time zone, as moments (pure)
             ``validate``  the rules beyond the schema
             ``manifests`` the CustomResourceDefinitions, and what our controllers and users may do
"""
