#!/usr/bin/env bash
# Two servers of grpcio share one port in silence, where grpc-go refuses the second one.
#
# Versions:  google.golang.org/grpc v1.85.0, grpcio 1.85.3
# Guess:     two servers in two processes listen on one TCP port of loopback. The second one is refused by both libraries.
# Seen:      the second grpc-go server is refused; the second grpcio server begins, and clients reach one or the other.
# Means:     a second manager in Python on the port of the first one is not told, and takes half of its clients: set
#            grpc.so_reuseport to 0, and the second one is refused.
#
# Needs Go, and Python with venv. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install grpcio==1.85.3

cat > go.mod <<'END'
module ports

go 1.25

require google.golang.org/grpc v1.85.0
END
cat > main.go <<'END'
package main

import (
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Println("refused")
		return
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	grpc.NewServer().Serve(listener)
}
END
go mod tidy > /dev/null 2>&1
go build -o serve .

cat > serve.py <<'END'
import concurrent.futures, sys, grpc


class Names(grpc.GenericRpcHandler):
    def service(self, _details):
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: sys.argv[2].encode())


options = [("grpc.so_reuseport", 0)] if "alone" in sys.argv else []
server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=options)
server.add_generic_rpc_handlers([Names()])
try:
    print(server.add_insecure_port("127.0.0.1:" + sys.argv[1]), flush=True)
except RuntimeError:
    sys.exit("refused")
server.start()
server.wait_for_termination()
END
cat > who.py <<'END'
import sys, grpc

names = set()
for _ in range(200):
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel("127.0.0.1:" + sys.argv[1], options=options) as channel:
        names.add(channel.unary_unary("/a.B/C")(b"").decode())
print(" and ".join(sorted(names)))
END

begin() { # FILE, COMMAND…: runs it in the background until it has printed a line into the file
    local file=$1
    shift
    "$@" > "$file" 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do
        [ -s "$file" ] && return
        sleep 0.1
    done
}

begin go.port ./serve 0
begin python.port venv/bin/python serve.py 0 first
begin alone.port venv/bin/python serve.py 0 first alone
{
    begin second ./serve "$(cat go.port)"
    echo "second grpc-go server on the port: $(cat second)"
    begin third venv/bin/python serve.py "$(cat python.port)" second
    sleep 1
    echo "second grpcio server on the port, clients reach: $(venv/bin/python who.py "$(cat python.port)")"
    begin fourth venv/bin/python serve.py "$(cat alone.port)" second alone
    echo "the same with grpc.so_reuseport at 0: $(tail -n 1 fourth)"
} > seen
cat > expected <<'END'
second grpc-go server on the port: refused
second grpcio server on the port, clients reach: first and second
the same with grpc.so_reuseport at 0: refused
END
cat seen
diff expected seen
