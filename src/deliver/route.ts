/**
 * `none`: plain text. `opportunistic`: TLS where offered, whatever the certificate, plain text where it fails
 * (RFC 7435). `unverified`: TLS or nothing, whatever the certificate. `required`: TLS with a certificate that verifies.
 */
export type TlsMode = 'none' | 'opportunistic' | 'unverified' | 'required';

/** One address of one host that may take the mail. */
export type Route = {
	readonly host: string;
	/** A literal IP address. */
	readonly address: string;
	readonly port: number;
	readonly tls: TlsMode;
	/** TLS from the first byte (smtps). */
	readonly implicitTls: boolean;
	/** What a smarthost wants to see. */
	readonly login: {readonly user: string; readonly password: string} | null;
};

/** Whether a connection made for one route serves the other. */
export function sameRoute(a: Route, b: Route): boolean {
	return (
		a.address === b.address &&
		a.port === b.port &&
		a.host === b.host &&
		a.tls === b.tls &&
		a.implicitTls === b.implicitTls &&
		a.login?.user === b.login?.user &&
		a.login?.password === b.login?.password
	);
}
