import {Agent as PlainAgent, request as requestPlain} from 'node:http';
import {Agent, request} from 'node:https';
import type {Duplex} from 'node:stream';
import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';
import {isPublicAddress} from './ip-address.ts';
import {type AskAddresses, addressesOf, connectPinned} from './pinned-connection.ts';

/** A lab's stand-in for a provider's host. */
export type StandIn = {readonly host: string; readonly port: number};

export type ProviderClientOptions = {
	readonly resolver: {readonly a: AskAddresses; readonly aaaa: AskAddresses};
	/** By the name of a host, of a provider, or `sns` (MAILCTL_PROVIDER_HOSTS). */
	readonly standIns: ReadonlyMap<string, StandIn>;
	readonly userAgent: string;
	/** From the look-up to the last octet, milliseconds. */
	readonly limitMs: number;
	/** PEM of certificate authorities to trust in addition to the public ones. */
	readonly ca?: string | undefined;
};

export type Asked = {
	readonly method: 'GET' | 'POST' | 'DELETE';
	readonly headers?: Readonly<Record<string, string>>;
	readonly body?: Buffer;
	/** Octets; absent: 4 MiB. */
	readonly maxAnswerLength?: number;
};
export type Answer = {
	readonly status: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly body: string;
};

/** A host of a provider gave no usable answer. */
export class ProviderHostError extends Error {
	/** The whole request was sent, so the host may have done what it asks for. */
	readonly isSent: boolean;

	constructor(message: string, isSent = true, cause?: unknown) {
		super(message, {cause});
		this.isSent = isSent;
	}
}

/**
 * A connection waits for its next request for less time than hosts keep one: they would close it while the request
 * comes.
 */
const idleMs = 4000;
const keeping = {keepAlive: true, timeout: idleMs};

const defaultMax = 4 * 1024 * 1024;

/**
 * Asks hosts of providers by HTTPS: the certificate is verified, no redirect is followed, the name is looked up here,
 * every address must be public, and the connection goes to one of these.
 */
export class ProviderClient {
	readonly #options: ProviderClientOptions;
	readonly #agent: Agent;
	readonly #standInAgent = new Agent({...keeping, rejectUnauthorized: false});
	readonly #plainAgent = new PlainAgent(keeping);

	constructor(options: ProviderClientOptions) {
		const {ca, resolver} = options;
		this.#options = options;
		this.#agent = new PinnedAgent(
			resolver,
			createSecureContext(ca === undefined ? {} : {ca: [...rootCertificates, ca]}),
		);
	}

	/**
	 * `name`: of the provider, or `sns`, for which SES's stand-in serves too. Rejects (`ProviderHostError`) without an
	 * answer, also with one that is too long.
	 */
	async ask(name: string, url: URL, asked: Asked = {method: 'GET'}): Promise<Answer> {
		const signal = AbortSignal.timeout(this.#options.limitMs);
		const standIn = this.#standInFor(url.hostname, name, ...(name === 'sns' ? ['ses'] : []));
		const state = {isSent: false};
		try {
			return standIn
				? await this.#askStandIn(standIn, url, asked, signal, state)
				: await this.#exchange(request, url, asked, signal, state, {
						agent: this.#agent,
						host: url.hostname,
						port: Number(url.port || 443),
					});
		} catch (error) {
			const why = signal.aborted
				? `no answer within ${this.#options.limitMs / 1000} s`
				: (error as Error).message;
			throw new ProviderHostError(`${url.hostname}: ${why}`, state.isSent, error);
		}
	}

	#standInFor(...names: readonly string[]): StandIn | undefined {
		return names.map(name => this.#options.standIns.get(name)).find(one => one !== undefined);
	}

	/** Over TLS without a look at the certificate, or plainly where the lab's host does not know TLS. */
	async #askStandIn(
		{host, port}: StandIn,
		url: URL,
		asked: Asked,
		signal: AbortSignal,
		state: Sending,
	): Promise<Answer> {
		try {
			return await this.#exchange(request, url, asked, signal, state, {agent: this.#standInAgent, host, port});
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== 'EPROTO') {
				throw error;
			}
			state.isSent = false;
			return await this.#exchange(requestPlain, url, asked, signal, state, {agent: this.#plainAgent, host, port});
		}
	}

	#exchange(
		start: typeof request | typeof requestPlain,
		url: URL,
		{method, headers, body, maxAnswerLength = defaultMax}: Asked,
		signal: AbortSignal,
		state: Sending,
		how: object,
	): Promise<Answer> {
		return new Promise((resolve, reject) => {
			const sent = start({
				...how,
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
			sent.on('error', reject);
			sent.on('finish', () => {
				state.isSent = true;
			});
			sent.on('response', response => {
				const chunks: Buffer[] = [];
				let size = 0;
				response.on('error', reject);
				response.on('data', (chunk: Buffer) => {
					size += chunk.length;
					chunks.push(chunk);
					if (size > maxAnswerLength) {
						reject(new Error('its answer is too long'));
						sent.destroy();
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
			sent.end(body);
		});
	}
}

/** How far a request came. */
type Sending = {isSent: boolean};

/** Connects to public addresses alone, and keeps connections for the next request. */
class PinnedAgent extends Agent {
	readonly #resolver: ProviderClientOptions['resolver'];
	readonly #secureContext: SecureContext;

	constructor(resolver: ProviderClientOptions['resolver'], secureContext: SecureContext) {
		super(keeping);
		this.#resolver = resolver;
		this.#secureContext = secureContext;
	}

	override createConnection(
		{host, port}: {readonly host?: string | null; readonly port?: number | string | null},
		opened: (error: Error | null, stream: Duplex) => void,
	): undefined {
		const target = {host: host ?? '', port: Number(port)};
		publicAddresses(target.host, this.#resolver).then(
			addresses => opened(null, connectPinned({...target, addresses}, this.#secureContext)),
			error => (opened as (error: Error) => void)(error as Error),
		);
	}
}

/** The addresses of a host; throws if it has no address, or one that is not public. */
async function publicAddresses(host: string, resolver: ProviderClientOptions['resolver']): Promise<readonly string[]> {
	const found = await addressesOf(host, resolver, false);
	if (found.kind !== 'found') {
		throw new Error(found.kind === 'failed' ? `its look-up failed: ${found.code}` : 'it has no address in DNS');
	}
	const refused = found.addresses.find(address => !isPublicAddress(address));
	if (refused !== undefined) {
		throw new Error(`it has the address ${refused}, which is not public`);
	}
	return found.addresses;
}
