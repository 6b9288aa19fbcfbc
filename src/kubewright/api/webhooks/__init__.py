"""Admission over HTTPS: the defaults and rules of our kinds as webhooks of a real Kubernetes.

``review``         one AdmissionReview in, one out: what ``api.admission`` says about an object
``configurations`` the two configurations that tell an API server of the webhooks, where we are, and
                   the roles of a process that serves them

Pure: ``runtime.webhooks`` serves the reviews, keeps certificates and writes the configurations.
"""
