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
 * `ca`: PEM of certificate authorities to trust besides the public ones. Each context is made once: reading all public
 * certificates anew for each connection would cost milliseconds.
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
