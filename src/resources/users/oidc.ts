import type {Configuration, CustomFetch} from 'openid-client';
import {Agent, fetch} from 'undici';
import type {Clock} from '../../kit/clock.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import {emailKey} from './rules.ts';
import {Pending} from './sessions.ts';
import {findUserByEmail, type User} from './store.ts';

type OidcOptions = {
	readonly issuer: string;
	readonly clientId: string;
	/** `null` for a public client. */
	readonly clientSecret: string | null;
	/** Certificate authorities in addition to the public ones (PEM), or `null`. */
	readonly ca: string | null;
	readonly store: Pick<Store, 'reader'>;
	readonly vault: Vault;
	readonly clock: Pick<Clock, 'now'>;
};

/** The context of a login at the provider. */
type OidcPurpose = {
	/** The URL of this server to which the provider redirects the browser. */
	readonly returnTo: string;
	/** A secret that the browser must still have when it returns, so that only this browser can complete the login. */
	readonly browser: string;
	/** The path that the user requested. */
	readonly to: string;
	/** The session that requires re-authentication; `null` if a new session starts. */
	readonly sessionId: string | null;
};

type OidcLogIn =
	| {readonly ok: true; readonly user: User; readonly purpose: OidcPurpose}
	| {readonly ok: false; readonly problem: string};

type Login = OidcPurpose & {readonly verifier: string; readonly nonce: string};

const timeoutSeconds = 10;
/** The maximum age of the login at the provider if re-authentication is required. */
const freshSeconds = 300;

const library = async () => await import('openid-client');

/**
 * Signs users in by an OpenID Connect provider (authorization code with PKCE). Only existing users can sign in, with
 * their verified address.
 */
export class Oidc {
	/** The name of the provider for people. */
	readonly name: string;
	readonly #options: OidcOptions;
	readonly #pending: Pending<Login>;
	#discovered: Promise<Configuration> | undefined;

	constructor(options: OidcOptions) {
		this.#options = options;
		this.#pending = new Pending(options.vault, options.clock, 'log-in by OpenID Connect');
		this.name = new URL(options.issuer).host;
	}

	/** Returns the URL at which the user signs in, or `null` if the provider does not respond. */
	async begin(purpose: OidcPurpose): Promise<string | null> {
		const {buildAuthorizationUrl, calculatePKCECodeChallenge, randomNonce, randomPKCECodeVerifier} =
			await library();
		const config = await this.#configuration().catch(() => null);
		if (config === null) {
			return null;
		}
		const [verifier, nonce] = [randomPKCECodeVerifier(), randomNonce()];
		return buildAuthorizationUrl(config, {
			redirect_uri: purpose.returnTo,
			scope: 'openid email',
			state: this.#pending.seal({...purpose, verifier, nonce}),
			nonce,
			code_challenge: await calculatePKCECodeChallenge(verifier),
			code_challenge_method: 'S256',
			...(purpose.sessionId !== null && {prompt: 'login', max_age: String(freshSeconds)}),
		}).href;
	}

	/** Completes a login. `query` is the query string of the redirect; for `browser`, see `OidcPurpose`. */
	async finish(query: URLSearchParams, browser: string): Promise<OidcLogIn> {
		const state = query.get('state') ?? '';
		const login = this.#pending.take(state);
		if (!login || login.browser !== browser) {
			return {ok: false, problem: 'Signing in took too long or was started in another browser. Start again.'};
		}
		const callbackUrl = new URL(login.returnTo);
		callbackUrl.search = query.toString();
		try {
			const email = await this.#findEmail(await this.#configuration(), callbackUrl, login, state);
			if (email === null) {
				return {ok: false, problem: 'The provider did not return a verified email address.'};
			}
			const user = await findUserByEmail(this.#options.store.reader, emailKey(email));
			return user
				? {ok: true, user, purpose: login}
				: {ok: false, problem: `The user ${email} does not exist. Ask an administrator to add it.`};
		} catch (error) {
			return {ok: false, problem: `Signing in at the provider failed: ${(error as Error).message}.`};
		}
	}

	async #configuration(): Promise<Configuration> {
		this.#discovered ??= this.#discover();
		return await this.#discovered.catch(error => {
			// Forget the failure, because the provider may respond next time.
			this.#discovered = undefined;
			throw error;
		});
	}

	async #discover(): Promise<Configuration> {
		const {issuer, clientId, clientSecret, ca} = this.#options;
		const {discovery, allowInsecureRequests, ClientSecretBasic, None, customFetch} = await library();
		const server = new URL(issuer);
		const options = {
			timeout: timeoutSeconds,
			execute: server.protocol === 'http:' ? [allowInsecureRequests] : [],
			...(ca !== null && {[customFetch]: fetchWith(ca)}),
		};
		const clientAuth = clientSecret === null ? None() : ClientSecretBasic(clientSecret);
		return await discovery(server, clientId, undefined, clientAuth, options);
	}

	/** Returns the user's address if the provider has verified it, or `null`. */
	async #findEmail(config: Configuration, callbackUrl: URL, {verifier, nonce, sessionId}: Login, state: string) {
		const {authorizationCodeGrant, fetchUserInfo} = await library();
		const tokens = await authorizationCodeGrant(config, callbackUrl, {
			pkceCodeVerifier: verifier,
			expectedState: state,
			expectedNonce: nonce,
			idTokenExpected: true,
			...(sessionId !== null && {maxAge: freshSeconds}),
		});
		const claims = tokens.claims();
		const userInfo =
			claims?.email === undefined ? await fetchUserInfo(config, tokens.access_token, claims?.sub ?? '') : claims;
		return typeof userInfo.email === 'string' && userInfo.email_verified === true ? userInfo.email : null;
	}
}

function fetchWith(ca: string): CustomFetch {
	const dispatcher = new Agent({connect: {ca}});
	return (async (url, options) => await fetch(url, {...options, dispatcher} as never)) as CustomFetch;
}
