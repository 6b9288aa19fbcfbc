#!/usr/bin/env bash
# A status that a grpc-go server sends reaches a grpcio client at random where its text has more than 8 KiB.
#
# Versions:  google.golang.org/grpc v1.85.0, grpcio 1.85.3
# Guess:     a grpc-go server ends a call with a status whose message is 6, 10, 12, 20 KiB; a grpcio client calls 200 times each.
#            The client shows code and message whole each time; limits are for messages (4 MiB), not for errors.
#            A grpc-go client with a grpcio server: the same.
# Seen:      of 200 answers NOT_FOUND with a text of 12,000 letters about a hundred arrive, the others are RESOURCE_EXHAUSTED; at
#            6,000 all arrive; at 20,000 none does, and the code is INTERNAL. A grpc-go client of that
#            server shows 20,000 letters each time; a grpcio server was not tried.
# Means:     a Python program that decides by the code of a Go server (try again, or is it gone?) decides by chance where the server
#            quotes much in its errors: keep texts of statuses under 2 KiB, and bytes beyond ASCII travel as three.
#
# Needs Go, and Python with venv. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install grpcio==1.85.3

mkdir server client
cat > go.mod <<'END'
module statuses

go 1.25

require google.golang.org/grpc v1.85.0
END
cat > codec.txt <<'END'
type bytesOnly struct{}

func (bytesOnly) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesOnly) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (bytesOnly) Name() string                       { return "proto" }
END
cat > server/main.go <<'END'
package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

func notFound(_ any, stream grpc.ServerStream) error {
	var asked []byte
	if err := stream.RecvMsg(&asked); err != nil {
		return err
	}
	letters, _ := strconv.Atoi(string(asked))
	return status.Error(codes.NotFound, strings.Repeat("x", letters))
}

func main() {
	encoding.RegisterCodec(bytesOnly{})
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	grpc.NewServer(grpc.UnknownServiceHandler(notFound)).Serve(listener)
}

END
cat > client/main.go <<'END'
package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

func main() {
	encoding.RegisterCodec(bytesOnly{})
	conn, _ := grpc.NewClient("127.0.0.1:"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	asked, arrived := []byte(os.Args[2]), 0
	for range 200 {
		answer := []byte{}
		told, _ := status.FromError(conn.Invoke(context.Background(), "/a.B/C", &asked, &answer))
		if told.Code().String() == "NotFound" && fmt.Sprint(len(told.Message())) == os.Args[2] {
			arrived++
		}
	}
	fmt.Println(arrived)
}

END
cat codec.txt >> server/main.go
cat codec.txt >> client/main.go
go mod tidy > /dev/null 2>&1
go build -o serve ./server
go build -o call ./client

cat > call.py <<'END'
import collections, sys, grpc

codes = collections.Counter()
with grpc.insecure_channel("127.0.0.1:" + sys.argv[1]) as channel:
    for _ in range(200):
        try:
            channel.unary_unary("/a.B/C")(sys.argv[2].encode())
        except grpc.RpcError as error:
            codes[error.code().name] += 1
print(*(f"{name} {'each time' if count == 200 else 'sometimes'}" for name, count in sorted(codes.items())), sep=", ")
END

begin() { # FILE, COMMAND…: runs it in the background until it has printed a line into the file
    local file=$1
    shift
    "$@" > "$file" 2> /dev/null &
    pids+=($!)
    for _ in $(seq 100); do
        [ -s "$file" ] && return
        sleep 0.1
    done
}

begin go.port ./serve
{
    for letters in 6000 12000 20000; do
        echo "grpcio client, $letters letters: $(venv/bin/python call.py "$(cat go.port)" $letters)"
    done
    echo "grpc-go client, 20000 letters arrive: $(./call "$(cat go.port)" 20000) of 200"
} > seen
cat > expected <<'END'
grpcio client, 6000 letters: NOT_FOUND each time
grpcio client, 12000 letters: NOT_FOUND sometimes, RESOURCE_EXHAUSTED sometimes
grpcio client, 20000 letters: INTERNAL each time
grpc-go client, 20000 letters arrive: 200 of 200
END
cat seen
diff expected seen
