"""What the server asks kubelets for its clients: logs, streams to containers, usage.

``where``      which address a Node's kubelet has, and which addresses may be dialled; pure
``questions``  what of a kubelet a request asks for, and the words of refusals; pure
``dialing``    the connections to kubelets, and how many there may be
``usage``      what pods and nodes use, from the summaries of their kubelets

``http.kubelets`` and ``http.usage`` answer the requests.
"""
