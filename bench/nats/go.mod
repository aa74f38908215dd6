// What bench/peers builds to have the NATS server on this machine.
module dictum/bench/nats

go 1.26.0

require github.com/nats-io/nats-server/v2 v2.15.2
