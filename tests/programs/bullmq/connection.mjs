import { Redis } from 'ioredis';

const hosts = process.env.DICTUM_HOSTS.split(',');

/** A connection to one node, with the settings that BullMQ asks for. */
export function connection(node) {
  const at = hosts[node].lastIndexOf(':');
  return new Redis({
    host: hosts[node].slice(0, at), port: Number(hosts[node].slice(at + 1)), maxRetriesPerRequest: null,
    retryStrategy: () => 200,
  });
}
