import {request as requestPlain} from 'node:http';
import {request} from 'node:https';
import {createSecureContext, type SecureContext} from 'node:tls';
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
};

export type Asked = {
	readonly method: 'GET' | 'POST' | 'DELETE';
	readonly headers?: Readonly<Record<string, string>>;
	readonly body?: Buffer;
	/** Octets; absent: 4 MiB. */
	readonly longestAnswer?: number;
};
export type Answer = {
	readonly status: number;
	readonly headers: Readonly<Record<string, unknown>>;
	readonly body: string;
};

/** A host of a provider gave no usable answer. */
export class ProviderHostError extends Error {}

const usualLongest = 4 * 1024 * 1024;

/**
 * Asks hosts of providers by HTTPS: the certificate is verified, no redirect is followed, the name is looked up here, every address
 * must be public, and the connection goes to one of these.
 */
export class ProviderClient {
	readonly #options: ProviderClientOptions;
	readonly #secureContext: SecureContext = createSecureContext();

	constructor(options: ProviderClientOptions) {
		this.#options = options;
	}

	/** `name`: of the provider, or `sns`, for which SES's stand-in serves too. Rejects without an answer, also with one that is too long. */
	async ask(name: string, url: URL, asked: Asked = {method: 'GET'}): Promise<Answer> {
		const signal = AbortSignal.timeout(this.#options.limitMs);
		const standIn = this.#standInFor(url.hostname, name, ...(name === 'sns' ? ['ses'] : []));
		try {
			return standIn ? await this.#askStandIn(standIn, url, asked, signal) : await this.#askHost(url, asked, signal);
		} catch (error) {
			const why = signal.aborted ? `no answer within ${this.#options.limitMs / 1000} s` : (error as Error).message;
			throw new ProviderHostError(`${url.hostname}: ${why}`, {cause: error});
		}
	}

	#standInFor(...names: readonly string[]): StandIn | undefined {
		return names.map(name => this.#options.standIns.get(name)).find(one => one !== undefined);
	}

	async #askHost(url: URL, asked: Asked, signal: AbortSignal): Promise<Answer> {
		const {hostname: host} = url;
		const port = Number(url.port || 443);
		const found = await addressesOf(host, this.#options.resolver, false);
		if (found.kind !== 'found') {
			throw new Error(found.kind === 'failed' ? `its look-up failed: ${found.code}` : 'it has no address in DNS');
		}
		const refused = found.addresses.find(address => !isPublicAddress(address));
		if (refused !== undefined) {
			throw new Error(`it has the address ${refused}, which is not public`);
		}
		const {addresses} = found;
		return await this.#exchange(request, url, asked, signal, {
			createConnection: () => connectPinned({host, port, addresses}, this.#secureContext),
		});
	}

	/** Over TLS without a look at the certificate, or plainly where the lab's host does not know TLS. */
	async #askStandIn({host, port}: StandIn, url: URL, asked: Asked, signal: AbortSignal): Promise<Answer> {
		try {
			return await this.#exchange(request, url, asked, signal, {host, port, rejectUnauthorized: false});
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== 'EPROTO') {
				throw error;
			}
			return await this.#exchange(requestPlain, url, asked, signal, {host, port});
		}
	}

	#exchange(
		start: typeof request | typeof requestPlain,
		url: URL,
		{method, headers, body, longestAnswer = usualLongest}: Asked,
		signal: AbortSignal,
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
			sent.on('response', response => {
				const chunks: Buffer[] = [];
				let size = 0;
				response.on('error', reject);
				response.on('data', (chunk: Buffer) => {
					size += chunk.length;
					chunks.push(chunk);
					if (size > longestAnswer) {
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
