import {BlockList, isIP} from 'node:net';
import {LRUCache} from 'lru-cache';
import type {Settings} from '../../config/settings.ts';
import {hostName} from '../../net/host-name.ts';
import {isLoopbackAddress, isPublicAddress} from '../../net/ip-address.ts';

const localNames = ['localhost', 'local', 'internal', 'home.arpa'];
/** Every attempt needs a verdict, and a `BlockList` check takes microseconds, so verdicts are cached. */
const maxCachedVerdicts = 1000;
// The URL standard silently drops some of these, so the URL called would differ from the one stored.
const invisible = /[\s\p{Cc}]/u;

export type GuardOptions = {
	/** Non-public ranges that are allowed anyway (MAILCTL_WEBHOOK_ALLOW_CIDRS). Local names stay refused. */
	readonly allowCidrs: readonly string[];
	/** In capture mode: accepts `http://localhost:PORT`, `http://127.0.0.1:PORT` and `http://[::1]:PORT`. */
	readonly allowsLocal: boolean;
};

/** Returns which endpoints the settings allow. */
export function toGuard({webhookAllowCidrs, delivery}: Pick<Settings, 'webhookAllowCidrs' | 'delivery'>): GuardOptions {
	return {allowCidrs: webhookAllowCidrs, allowsLocal: delivery === 'capture'};
}

/** Decides where webhooks may go. It checks URLs when an endpoint is registered, and addresses at each attempt. */
export class AddressGuard {
	readonly #allowed = new BlockList();
	readonly #verdicts = new LRUCache<string, boolean>({max: maxCachedVerdicts});
	readonly #allowsLocal: boolean;

	constructor({allowCidrs, allowsLocal}: GuardOptions) {
		this.#allowsLocal = allowsLocal;
		for (const cidr of allowCidrs) {
			const [network = '', length] = cidr.split('/');
			this.#allowed.addSubnet(network, Number(length), familyOf(network));
		}
	}

	/** Whether connections to this address are allowed. */
	allows(address: string): boolean {
		const isAllowed =
			this.#verdicts.get(address) ??
			(isPublicAddress(address) || (isIP(address) !== 0 && this.#allowed.check(address, familyOf(address))));
		this.#verdicts.set(address, isAllowed);
		return isAllowed;
	}

	/** Whether this is an `http` URL of this machine, and such URLs are allowed. */
	isLocal(url: URL): boolean {
		// An explicit port shows intent: `http://localhost` alone is always refused.
		return this.#allowsLocal && url.protocol === 'http:' && url.port !== '' && isLocalHost(hostOf(url));
	}

	/** Returns the problem with an endpoint's URL (`must …`), or `null`. Does not look up the host's addresses. */
	urlProblem(text: string): string | null {
		const url = invisible.test(text) || !URL.canParse(text) ? null : new URL(text);
		if (url === null) {
			return 'must be a URL such as https://shop.example/hooks';
		}
		const isLocal = this.isLocal(url);
		const problem = isLocal ? null : this.#hostProblem(hostOf(url));
		const where = this.#allowsLocal ? 'here' : 'in capture mode (MAILCTL_DELIVERY=capture)';
		const localHint = `${where} http://localhost:PORT is allowed, and MAILCTL_WEBHOOK_ALLOW_CIDRS allows https to such addresses`;
		if (url.protocol !== 'https:' && !isLocal) {
			return `must be an https URL${problem?.isInternal || isLocalHost(hostOf(url)) ? `: ${localHint}` : ''}`;
		}
		if (url.username !== '' || url.password !== '') {
			return 'must not contain a user name or password';
		}
		if (!isWebhookPort(portOf(url))) {
			return `must not use port ${url.port}: use 80, 443, or a port above 1023 that no database uses by default`;
		}
		return problem?.isInternal ? `${problem.text}: ${localHint}` : (problem?.text ?? null);
	}

	// The URL standard has already normalized unusual spellings of IPv4 addresses (decimal, octal, hex, full-width).
	#hostProblem(host: string): {readonly text: string; readonly isInternal: boolean} | null {
		if (isIP(host) !== 0) {
			return this.allows(host)
				? null
				: {text: 'must not name a private, loopback or reserved address', isInternal: true};
		}
		if (localNames.some(name => host === name || host.endsWith(`.${name}`))) {
			return {text: 'must not name a local host', isInternal: true};
		}
		const isFull = hostName(host)?.includes('.');
		return isFull ? null : {text: 'must have a full host name such as shop.example', isInternal: false};
	}
}

/** Returns the host of a URL as it is looked up and verified: without brackets and without a trailing dot. */
export function hostOf({hostname}: URL): string {
	return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** Returns the port of an https URL, or of a local one, which always has an explicit port. */
export function portOf({port}: URL): number {
	return port === '' ? 443 : Number(port);
}

function isLocalHost(host: string): boolean {
	return host === 'localhost' || isLoopbackAddress(host);
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
	return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}

/** Allowed ports up to 1023. */
const webPorts: ReadonlySet<number> = new Set([80, 443]);

/**
 * Ports above 1023 on which databases, caches, queues and admin tools listen by default. A webhook must not reach
 * one that was left open by mistake. None is in the range that Linux uses for outgoing connections (32768 and up).
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

function isWebhookPort(port: number): boolean {
	return port > 1023 ? !refused.has(port) : webPorts.has(port);
}
