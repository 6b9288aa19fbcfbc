// The container that holds a Pod's namespaces, for the image that `make node-image` builds. It needs no module.
module kubewright/tools/node_image/pause

go 1.26.0
