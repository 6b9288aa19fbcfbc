"""Webhooks of a process: an HTTPS server, its certificates, and the configurations that lead to it.

``certificates``  which keys to make, and when: the decision, and the keys themselves
``keeper``        looks at the Secret and the configurations, decides, and writes what is missing
``server``        serves AdmissionReviews over TLS with the certificate that the keeper gives it

What is answered is decided in ``api.webhooks``. Each replica serves, whether it leads or not.
"""
