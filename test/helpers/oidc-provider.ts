import {createHash, generateKeyPairSync, sign} from 'node:crypto';
import {once} from 'node:events';
import {createServer} from 'node:http';
import type {AddressInfo} from 'node:net';
import {text} from 'node:stream/consumers';
import type {Scope} from './daemon.ts';

/** What the provider says of whoever logs in there; a test may change it. */
export type Claims = Record<string, unknown>;

export type OidcProvider = {
	readonly issuer: string;
	/** Of the id token. */
	claims: Claims;
	/** What is told only when it is asked for. */
	userInfo: Claims;
};

const client = {id: 'mailctl', secret: 's3cret/%'};

/** An OpenID Connect provider on loopback at which everybody is logged in: its page sends the browser straight back. */
export async function startOidcProvider(t: Scope): Promise<OidcProvider> {
	const {publicKey, privateKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
	const asked = new Map<string, URLSearchParams>();
	const provider: OidcProvider = {issuer: '', claims: {}, userInfo: {}};

	function idToken(nonce: string | null): string {
		const now = Math.floor(Date.now() / 1000);
		const standard = {
			iss: provider.issuer,
			aud: client.id,
			sub: 'u1',
			iat: now,
			exp: now + 60,
			auth_time: now,
			nonce,
		};
		const part = (content: object) => Buffer.from(JSON.stringify(content)).toString('base64url');
		const signed = `${part({alg: 'RS256', kid: 'k'})}.${part({...standard, ...provider.claims})}`;
		return `${signed}.${sign('sha256', Buffer.from(signed), privateKey).toString('base64url')}`;
	}

	const answers: Record<string, (url: URL, body: URLSearchParams, proof: string) => object | string> = {
		'/.well-known/openid-configuration': () => ({
			issuer: provider.issuer,
			authorization_endpoint: `${provider.issuer}/authorize`,
			token_endpoint: `${provider.issuer}/token`,
			userinfo_endpoint: `${provider.issuer}/userinfo`,
			jwks_uri: `${provider.issuer}/jwks`,
			response_types_supported: ['code'],
			id_token_signing_alg_values_supported: ['RS256'],
			subject_types_supported: ['public'],
			code_challenge_methods_supported: ['S256'],
		}),
		'/jwks': () => ({keys: [{...publicKey.export({format: 'jwk'}), kid: 'k', alg: 'RS256', use: 'sig'}]}),
		'/authorize': ({searchParams}) => {
			const code = String(asked.size);
			asked.set(code, searchParams);
			const back = new URL(searchParams.get('redirect_uri') ?? '');
			back.search = new URLSearchParams({code, state: searchParams.get('state') ?? ''}).toString();
			return back.href;
		},
		'/token': (_url, body, proof) => {
			const begun = asked.get(body.get('code') ?? '');
			const challenge = createHash('sha256')
				.update(body.get('code_verifier') ?? '')
				.digest('base64url');
			const secret = Buffer.from(`${client.id}:${encodeURIComponent(client.secret)}`).toString('base64');
			const isRight = challenge === begun?.get('code_challenge') && proof === `Basic ${secret}`;
			return isRight
				? {access_token: 'a', token_type: 'Bearer', id_token: idToken(begun?.get('nonce') ?? null)}
				: {error: 'invalid_grant'};
		},
		'/userinfo': () => ({sub: 'u1', ...provider.userInfo}),
	};
	const server = createServer(async (request, response) => {
		const url = new URL(request.url ?? '', provider.issuer);
		const body = new URLSearchParams(await text(request));
		const answer = answers[url.pathname]?.(url, body, request.headers.authorization ?? '') ?? {};
		if (typeof answer === 'string') {
			response.writeHead(302, {location: answer}).end();
			return;
		}
		response
			.writeHead('error' in answer ? 400 : 200, {'content-type': 'application/json'})
			.end(JSON.stringify(answer));
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => {
		server.closeAllConnections();
		server.close();
	});
	Object.assign(provider, {issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`});
	return provider;
}

/** The settings of a daemon that logs in there. */
export const oidcSettings = ({issuer}: OidcProvider) => ({
	MAILCTL_OIDC_ISSUER: issuer,
	MAILCTL_OIDC_CLIENT_ID: client.id,
	MAILCTL_OIDC_CLIENT_SECRET: client.secret,
});
