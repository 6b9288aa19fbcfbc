"""``controlplane.cluster.x-k8s.io/v1alpha4``: control planes and their three components as objects.

Map.         ``v1alpha4``  the kinds, with the names and fields of Cluster API Provider Nested (nested.md A2)
             ``names``     strings that other programs parse: finalizers, annotations, labels, phases
             ``reasons``   types and reasons of conditions, reasons of events
             ``schedules`` cron expressions in a time zone, as moments (pure)
             ``validate``  the rules beyond the schema
             ``crds``      the CustomResourceDefinitions
             ``rbac``      what our controllers and users may do with them
"""
