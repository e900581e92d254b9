import {request} from 'node:https';
import type {SecureContext} from 'node:tls';
import {type TlsFailure, withoutAdvice} from '../mail/outcome.ts';
import type {Resolver} from '../net/dns.ts';
import {isPublicAddress} from '../net/ip-address.ts';
import {addressesOf, connectPinned} from '../net/pinned-connection.ts';
import {parsePolicy, type StsPolicy} from './sts-policy.ts';

export type Fetched =
	| {readonly ok: true; readonly policy: StsPolicy}
	/** In the words of RFC 8460 §4.3.2.2, and in a sentence. */
	| {readonly ok: false; readonly failure: TlsFailure; readonly reason: string};

type FetchOptions = {
	readonly resolver: Pick<Resolver, 'a' | 'aaaa'>;
	readonly port: number;
	/** For a lab: also addresses that are not public. */
	readonly allowPrivate: boolean;
	readonly secureContext: SecureContext;
	readonly userAgent: string;
	/** From the look-up to the last octet, milliseconds. */
	readonly limitMs: number;
};

const longestPolicy = 64 * 1024;
/** The codes by which OpenSSL and Node refuse a certificate. */
const certificateCode = /CERT|ISSUER|SIGNATURE|CHAIN|ERR_TLS_CERT/;

/**
 * Fetches `https://mta-sts.<domain>/.well-known/mta-sts.txt` (RFC 8461 §3.3): certificate verified, no redirects, 64 KiB at
 * most. The name is looked up here, every address checked, and the connection goes to one of these. Never rejects.
 */
export async function fetchPolicy(domain: string, options: FetchOptions): Promise<Fetched> {
	const host = `mta-sts.${domain}`;
	const signal = AbortSignal.timeout(options.limitMs);
	try {
		const text = await withLimit(signal, async () => get(host, await checkedAddresses(host, options), signal, options));
		const policy = parsePolicy(text);
		return 'fault' in policy
			? failed('sts-policy-invalid', `the policy at ${host} is not valid: ${policy.fault}`)
			: {ok: true, policy};
	} catch (error) {
		if (signal.aborted) {
			return failed('sts-policy-fetch-error', `${host} gave no policy within ${options.limitMs / 1000} s`);
		}
		const {code = '', message, failure} = error as NodeJS.ErrnoException & {failure?: TlsFailure};
		const webpki = certificateCode.test(code) ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
		return failed(failure ?? webpki, `${host}: ${withoutAdvice(message)}`);
	}
}

function failed(failure: TlsFailure, reason: string): Fetched {
	return {ok: false, failure, reason};
}

/** The look-up has no signal of its own. */
function withLimit<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
	return new Promise((resolve, reject) => {
		signal.addEventListener('abort', () => reject(signal.reason), {once: true});
		work().then(resolve, reject);
	});
}

async function checkedAddresses(host: string, {resolver, allowPrivate}: FetchOptions): Promise<readonly string[]> {
	const found = await addressesOf(host, resolver, false);
	if (found.kind !== 'found') {
		throw new Error(found.kind === 'failed' ? `its look-up failed: ${found.code}` : 'it has no address in DNS');
	}

	const refused = allowPrivate ? undefined : found.addresses.find(address => !isPublicAddress(address));
	if (refused !== undefined) {
		throw new Error(`it has the address ${refused}, which is not public`);
	}

	return found.addresses;
}

function get(
	host: string,
	addresses: readonly string[],
	signal: AbortSignal,
	{port, secureContext, userAgent}: FetchOptions,
): Promise<string> {
	return new Promise((resolve, reject) => {
		const asked = request({
			host,
			port,
			path: '/.well-known/mta-sts.txt',
			headers: {'user-agent': userAgent, accept: 'text/plain'},
			createConnection: () => connectPinned({host, port, addresses}, secureContext),
			maxHeaderSize: 16_384,
			signal,
		});
		asked.on('error', reject);
		asked.on('response', response => {
			const refuse = (message: string, failure: TlsFailure) => {
				reject(Object.assign(new Error(message), {failure}));
				asked.destroy();
			};
			const type = response.headers['content-type'] ?? '';
			if (response.statusCode !== 200) {
				refuse(`it answered ${response.statusCode}`, 'sts-policy-fetch-error');
				return;
			}

			// RFC 8461 §3.2: what users may put on a web server is seldom plain text.
			if (!/^text\/plain[ \t]*(;|$)/i.test(type)) {
				refuse('its policy is not text/plain', 'sts-policy-invalid');
				return;
			}

			const chunks: Buffer[] = [];
			let size = 0;
			response.on('data', (chunk: Buffer) => {
				size += chunk.length;
				chunks.push(chunk);
				if (size > longestPolicy) {
					refuse('its policy is longer than 64 KiB', 'sts-policy-invalid');
				}
			});
			response.on('error', reject);
			response.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
		});
		asked.end();
	});
}
