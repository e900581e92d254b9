/** Ports up to 1023 that an endpoint may be on. */
const usual: ReadonlySet<number> = new Set([80, 443]);

/**
 * Ports above 1023 where databases, caches, queues and administration listen by default: a webhook must not reach one that
 * its operator left open. None is in the range of which Linux takes ports for clients (32768 up).
 */
export const refusedPorts: readonly number[] = [
	...[1433, 1434], // SQL Server
	...[1521, 1522, 2484], // Oracle
	...[2049], // NFS
	...[2181], // ZooKeeper
	...[2375, 2376, 2377], // Docker
	...[2379, 2380], // etcd
	...[3050], // Firebird
	...[3306], // MySQL
	...[3389], // Remote Desktop
	...[4369], // Erlang
	...[5432, 6432], // PostgreSQL, PgBouncer
	...[5671, 5672, 15671, 15672], // RabbitMQ
	...[5900], // VNC
	...[5984, 6984], // CouchDB
	...[6379, 6380, 16379, 26379], // Redis
	...[6443, 10250, 10255], // Kubernetes
	...[7000, 7001, 7199, 9042, 9142, 9160], // Cassandra
	...[7473, 7474, 7687], // Neo4j
	...[8086], // InfluxDB
	...[8091, 11207, 11210, 18091], // Couchbase
	...[8123, 9440], // ClickHouse
	...[8200, 8500, 8501], // Vault, Consul
	...[8529], // ArangoDB
	...[9092, 9093], // Kafka
	...[9200, 9300], // Elasticsearch
	...[11211], // memcached
	...[26257], // CockroachDB
	...[27017, 27018, 27019], // MongoDB
	...[28015], // RethinkDB
];

const refused: ReadonlySet<number> = new Set(refusedPorts);

/** Whether an endpoint may be on this port. */
export function isWebhookPort(port: number): boolean {
	return port > 1023 ? !refused.has(port) : usual.has(port);
}
