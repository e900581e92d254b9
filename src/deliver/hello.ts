import {createSecureContext, rootCertificates, type SecureContext} from 'node:tls';

/**
 * How TLS is begun. `usual`: as Node does. `reduced`: a small ClientHello without TLS 1.3, since some hosts and
 * middleboxes choke on a large one. `none`: not at all.
 */
export type Hello = 'usual' | 'reduced' | 'none';

/** What the TLS of a connection is made with; `strict`: TLS is demanded. */
export type SecureContexts = (hello: 'usual' | 'reduced', strict: boolean) => SecureContext;

const small = {maxVersion: 'TLSv1.2', ecdhCurve: 'P-256'} as const;
// Where plain text comes next, TLS 1.0 and short keys are better than nothing (RFC 7435 §3); Node refuses them by default.
const old = {...small, minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0'} as const;

/**
 * Each context is made once: to read all public certificates for each connection would cost milliseconds.
 *
 * @param ca PEM of certificate authorities to trust in addition to the public ones
 */
export function createSecureContexts(ca: string | undefined): SecureContexts {
	const trusted = ca === undefined ? {} : {ca: [...rootCertificates, ca]};
	const made = new Map<object, SecureContext>();
	const usual = {minVersion: 'TLSv1.2'} as const;
	const strictly = {...small, minVersion: 'TLSv1.2'} as const;
	return (hello, strict) => {
		const options = hello === 'usual' ? usual : strict ? strictly : old;
		const context = made.get(options) ?? createSecureContext({...trusted, ...options});
		made.set(options, context);
		return context;
	};
}

/** What a server offers in its answer to EHLO (RFC 5321 §4.1.1.1), as far as we use it. */
export type Extensions = {
	readonly pipelining: boolean;
	readonly starttls: boolean;
	readonly smtputf8: boolean;
	readonly dsn: boolean;
	/** Whether SIZE may be said. */
	readonly size: boolean;
	/** The largest message it takes, in octets; null: it sets no limit. */
	readonly largest: number | null;
	readonly auth: readonly string[];
};

export const noExtensions: Extensions = {
	pipelining: false,
	starttls: false,
	smtputf8: false,
	dsn: false,
	size: false,
	largest: null,
	auth: [],
};

/** Reads the lines of a 250 to EHLO; the first one is the server's greeting. */
export function parseExtensions(lines: readonly string[]): Extensions {
	const offered = new Map<string, string>();
	for (const line of lines.slice(1)) {
		// `AUTH=LOGIN` is an old spelling that some servers add.
		const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
		offered.set(keyword, [offered.get(keyword), ...parameters].filter(Boolean).join(' '));
	}

	const size = offered.get('SIZE');
	// RFC 1870 §4: zero, or no number, is no fixed limit.
	const largest = size !== undefined && /^\d{1,15}$/.test(size) ? Number(size) : 0;
	return {
		pipelining: offered.has('PIPELINING'),
		starttls: offered.has('STARTTLS'),
		smtputf8: offered.has('SMTPUTF8'),
		dsn: offered.has('DSN'),
		size: size !== undefined,
		largest: largest === 0 ? null : largest,
		auth: (offered.get('AUTH') ?? '').split(' ').filter(Boolean),
	};
}
