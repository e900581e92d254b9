import {Agent as PlainAgent, request as requestPlain} from 'node:http';
import {Agent, request} from 'node:https';
import type {Duplex} from 'node:stream';
import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';
import {isPublicAddress} from './ip-address.ts';
import {connectPinned, findAddresses, type LookUpAddresses} from './pinned-connection.ts';

// src/net holds the network tools that several folders share: addresses, names, URLs, DNS types and connections. It
// relies on Node and on the resolvers passed in. Nothing here knows of messages, queues or the store, and nothing
// connects to a private address unless the operator configured it.

/** A test lab's replacement for a provider's host. */
export type StandIn = {readonly host: string; readonly port: number};

export type ProviderClientOptions = {
	readonly resolver: {readonly a: LookUpAddresses; readonly aaaa: LookUpAddresses};
	/** The stand-ins by host name, provider name, or `sns` (MAILCTL_PROVIDER_HOSTS). */
	readonly standIns: ReadonlyMap<string, StandIn>;
	readonly userAgent: string;
	/** The time limit from the lookup to the last octet, in milliseconds. */
	readonly limitMs: number;
	/** Additional trusted certificate authorities, as PEM. */
	readonly ca?: string | undefined;
};

export type ProviderRequest = {
	readonly method: 'GET' | 'POST' | 'DELETE';
	readonly headers?: Readonly<Record<string, string>>;
	readonly body?: Buffer;
	/** In octets; 4 MiB by default. */
	readonly maxResponseLength?: number;
};
export type ProviderResponse = {
	readonly status: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly body: string;
};

/** A provider's host returned no usable response. */
export class ProviderHostError extends Error {
	/** Whether the whole request was sent, so that the host may have acted on it. */
	readonly isSent: boolean;

	constructor(message: string, isSent = true, cause?: unknown) {
		super(message, {cause});
		this.isSent = isSent;
	}
}

/**
 * How long an idle connection stays open for reuse, in milliseconds. It must be shorter than the hosts' own limit, or
 * they could close a connection while a request is on its way.
 */
const idleMs = 4000;
const keepAliveOptions = {keepAlive: true, timeout: idleMs};

const defaultMaxLength = 4 * 1024 * 1024;

/**
 * Sends HTTPS requests to providers. Certificates are verified, redirects are not followed, and connections go only to
 * public addresses.
 */
export class ProviderClient {
	readonly #options: ProviderClientOptions;
	readonly #agent: Agent;
	readonly #standInAgent = new Agent({...keepAliveOptions, rejectUnauthorized: false});
	readonly #plainAgent = new PlainAgent(keepAliveOptions);

	constructor(options: ProviderClientOptions) {
		const {ca, resolver} = options;
		this.#options = options;
		this.#agent = new PinnedAgent(
			resolver,
			createSecureContext(ca === undefined ? {} : {ca: [...rootCertificates, ca]}),
		);
	}

	/**
	 * Sends a request. `name` is the provider, or `sns`, which also uses the stand-in for SES. Rejects with
	 * `ProviderHostError` if there is no response or it is too long.
	 */
	async send(name: string, url: URL, init: ProviderRequest = {method: 'GET'}): Promise<ProviderResponse> {
		const signal = AbortSignal.timeout(this.#options.limitMs);
		const standIn = this.#standInFor(url.hostname, name, ...(name === 'sns' ? ['ses'] : []));
		const state = {isSent: false};
		try {
			return standIn
				? await this.#askStandIn(standIn, url, init, signal, state)
				: await this.#exchange(request, url, init, signal, state, {
						agent: this.#agent,
						host: url.hostname,
						port: Number(url.port || 443),
					});
		} catch (error) {
			const reason = signal.aborted
				? `no response within ${this.#options.limitMs / 1000} s`
				: (error as Error).message;
			throw new ProviderHostError(`${url.hostname}: ${reason}`, state.isSent, error);
		}
	}

	#standInFor(...names: readonly string[]): StandIn | undefined {
		return names.map(name => this.#options.standIns.get(name)).find(standIn => standIn !== undefined);
	}

	/** Uses TLS without verifying the certificate, or plain HTTP if the lab's host does not support TLS. */
	async #askStandIn(
		{host, port}: StandIn,
		url: URL,
		init: ProviderRequest,
		signal: AbortSignal,
		state: Progress,
	): Promise<ProviderResponse> {
		try {
			return await this.#exchange(request, url, init, signal, state, {agent: this.#standInAgent, host, port});
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== 'EPROTO') {
				throw error;
			}
			state.isSent = false;
			return await this.#exchange(requestPlain, url, init, signal, state, {agent: this.#plainAgent, host, port});
		}
	}

	#exchange(
		send: typeof request | typeof requestPlain,
		url: URL,
		{method, headers, body, maxResponseLength = defaultMaxLength}: ProviderRequest,
		signal: AbortSignal,
		state: Progress,
		target: object,
	): Promise<ProviderResponse> {
		return new Promise((resolve, reject) => {
			const outgoing = send({
				...target,
				method,
				path: `${url.pathname}${url.search}`,
				headers: {
					host: url.host,
					'user-agent': this.#options.userAgent,
					...headers,
					...(body && {'content-length': body.length}),
				},
				signal,
			});
			outgoing.on('error', reject);
			outgoing.on('finish', () => {
				state.isSent = true;
			});
			outgoing.on('response', response => {
				const chunks: Buffer[] = [];
				let size = 0;
				response.on('error', reject);
				response.on('data', (chunk: Buffer) => {
					size += chunk.length;
					chunks.push(chunk);
					if (size > maxResponseLength) {
						reject(new Error('its response is too long'));
						outgoing.destroy();
					}
				});
				response.on('end', () =>
					resolve({
						status: response.statusCode ?? 0,
						headers: response.headers,
						body: Buffer.concat(chunks).toString(),
					}),
				);
			});
			outgoing.end(body);
		});
	}
}

/** How far a request has progressed. */
type Progress = {isSent: boolean};

/** Connects only to public addresses, and keeps connections open for later requests. */
class PinnedAgent extends Agent {
	readonly #resolver: ProviderClientOptions['resolver'];
	readonly #secureContext: SecureContext;

	constructor(resolver: ProviderClientOptions['resolver'], secureContext: SecureContext) {
		super(keepAliveOptions);
		this.#resolver = resolver;
		this.#secureContext = secureContext;
	}

	override createConnection(
		{host, port}: {readonly host?: string | null; readonly port?: number | string | null},
		callback: (error: Error | null, stream: Duplex) => void,
	): undefined {
		const target = {host: host ?? '', port: Number(port)};
		publicAddresses(target.host, this.#resolver).then(
			addresses => callback(null, connectPinned({...target, addresses}, this.#secureContext)),
			error => (callback as (error: Error) => void)(error as Error),
		);
	}
}

/** Returns a host's addresses. Throws if it has none, or if any of them is not public. */
async function publicAddresses(host: string, resolver: ProviderClientOptions['resolver']): Promise<readonly string[]> {
	const lookup = await findAddresses(host, resolver, false);
	if (lookup.kind !== 'found') {
		throw new Error(
			lookup.kind === 'failed' ? `its DNS lookup failed: ${lookup.code}` : 'it has no address in DNS',
		);
	}
	const refused = lookup.addresses.find(address => !isPublicAddress(address));
	if (refused !== undefined) {
		throw new Error(`it has the address ${refused}, which is not public`);
	}
	return lookup.addresses;
}
