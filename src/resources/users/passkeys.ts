import type {
	AuthenticationResponseJSON,
	PublicKeyCredentialCreationOptionsJSON,
	PublicKeyCredentialRequestOptionsJSON,
	RegistrationResponseJSON,
} from '@simplewebauthn/server';
import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import type {ActTools} from '../../mail/operator.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import type {FailedLogIns} from './failed-log-ins.ts';
import type {LogIn} from './log-in.ts';
import {recordUserAct} from './rules.ts';
import {Pending} from './sessions.ts';
import {
	deletePasskey,
	findPasskey,
	findUser,
	insertPasskey,
	listPasskeys,
	type Passkey,
	type User,
	usePasskey,
} from './store.ts';

/** The origin of the dashboard. Passkeys are bound to its host name, which cannot be an IP address. */
export type DashboardOrigin = {
	/** `https://mail.example.com:8443` */
	readonly origin: string;
	/** `mail.example.com` */
	readonly host: string;
};

/** The options for the browser, and an encrypted state that the browser sends back with its response. */
export type PasskeyRequest<Options> = {readonly options: Options; readonly pending: string};

type PasskeyOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly vault: Vault;
	readonly clock: ActTools['clock'];
	readonly newId: ActTools['newId'];
	readonly attempts: FailedLogIns;
};

type PendingChallenge = {readonly challenge: string; readonly userId: string | null};

const maxNameLength = 60;

// Imported on demand, because it is large and would slow down startup.
const library = async () => await import('@simplewebauthn/server');

/**
 * Manages passkeys (WebAuthn). The authenticator checks a PIN, a fingerprint or the face, so a passkey alone, without a
 * password, is enough to sign in.
 */
export class Passkeys {
	readonly #options: PasskeyOptions;
	readonly #registrations: Pending<PendingChallenge>;
	readonly #logins: Pending<PendingChallenge>;

	constructor(options: PasskeyOptions) {
		const {vault, clock} = options;
		this.#options = options;
		this.#registrations = new Pending(vault, clock, 'registration of a passkey');
		this.#logins = new Pending(vault, clock, 'log-in by passkey');
	}

	async createRegistrationRequest(
		user: User,
		site: DashboardOrigin,
	): Promise<PasskeyRequest<PublicKeyCredentialCreationOptionsJSON>> {
		const {generateRegistrationOptions} = await library();
		const options = await generateRegistrationOptions({
			rpName: 'mailctl',
			rpID: site.host,
			userName: user.email,
			userID: new Uint8Array(Buffer.from(user.id)),
			excludeCredentials: (await listPasskeys(this.#options.store.reader, user.id)).map(
				({credential_id: id}) => ({id}),
			),
			authenticatorSelection: {residentKey: 'required', userVerification: 'required'},
		});
		return {options, pending: this.#registrations.seal({challenge: options.challenge, userId: user.id})};
	}

	/**
	 * Stores a passkey that a browser has created. Returns `undefined` if the response is invalid or the passkey is
	 * already registered.
	 */
	async register(
		operator: ActTools['operator'],
		user: User,
		{
			pending,
			answer,
			site,
			name,
		}: {readonly pending: string; readonly answer: unknown; readonly site: DashboardOrigin; readonly name: string},
	): Promise<Passkey | undefined> {
		const {store, clock, newId} = this.#options;
		const request = this.#registrations.take(pending);
		if (request?.userId !== user.id) {
			return undefined;
		}
		const {verifyRegistrationResponse} = await library();
		const result = await verifyRegistrationResponse({
			response: answer as RegistrationResponseJSON,
			expectedChallenge: request.challenge,
			expectedOrigin: site.origin,
			expectedRPID: site.host,
		}).catch(() => null);
		if (!result?.verified) {
			return undefined;
		}
		const {id: credential_id, publicKey: public_key, counter} = result.registrationInfo.credential;
		const passkey: Passkey = {
			id: newId('psk'),
			user_id: user.id,
			credential_id,
			public_key,
			counter: String(counter),
			name: name.trim().slice(0, maxNameLength) || 'Passkey',
			created_at: storeTime(clock.now()),
			used_at: null,
		};
		return await store.writer.transaction(async trx => {
			if (!(await insertPasskey(trx, passkey))) {
				return undefined;
			}
			const detail = {passkey: passkey.id, name: passkey.name};
			await recordUserAct(trx, {clock, newId, operator}, user, 'passkey_added', detail);
			return passkey;
		});
	}

	/** Accepts only the passkeys of the user. With `null`, the browser offers all that it has. */
	async createLoginRequest(
		site: DashboardOrigin,
		userId: string | null,
	): Promise<PasskeyRequest<PublicKeyCredentialRequestOptionsJSON>> {
		const {generateAuthenticationOptions} = await library();
		const passkeys = userId === null ? [] : await listPasskeys(this.#options.store.reader, userId);
		const options = await generateAuthenticationOptions({
			rpID: site.host,
			userVerification: 'required',
			allowCredentials: passkeys.map(({credential_id: id}) => ({id})),
		});
		return {options, pending: this.#logins.seal({challenge: options.challenge, userId})};
	}

	async logIn({
		pending,
		answer,
		site,
		address,
	}: {
		readonly pending: string;
		readonly answer: unknown;
		readonly site: DashboardOrigin;
		readonly address: string;
	}): Promise<LogIn> {
		const {store, attempts} = this.#options;
		// Attempts are limited by network, not by account: signatures cannot be guessed, and a failed one does not
		// identify a user.
		const waitSeconds = attempts.begin({address, account: null});
		if (waitSeconds !== null) {
			return {ok: false, reason: 'limited', seconds: waitSeconds};
		}
		const passkey = await this.#verify(pending, answer, site);
		const user = passkey && (await findUser(store.reader, passkey.user_id));
		if (!user) {
			return {ok: false, reason: 'wrong'};
		}
		attempts.succeeded({address, account: null});
		return {ok: true, user};
	}

	/** Returns the passkey that signed the challenge, or `undefined` if it is unknown or the signature is invalid. */
	async #verify(pending: string, answer: unknown, site: DashboardOrigin): Promise<Passkey | undefined> {
		const request = this.#logins.take(pending);
		const response = answer as AuthenticationResponseJSON;
		const passkey =
			typeof response?.id === 'string' ? await findPasskey(this.#options.store.reader, response.id) : undefined;
		if (!request || !passkey || (request.userId !== null && request.userId !== passkey.user_id)) {
			return undefined;
		}
		const {verifyAuthenticationResponse} = await library();
		const result = await verifyAuthenticationResponse({
			response,
			expectedChallenge: request.challenge,
			expectedOrigin: site.origin,
			expectedRPID: site.host,
			credential: {
				id: passkey.credential_id,
				publicKey: new Uint8Array(passkey.public_key),
				counter: Number(passkey.counter),
			},
		}).catch(() => null);
		if (!result?.verified) {
			return undefined;
		}
		const used = {
			counter: String(result.authenticationInfo.newCounter),
			used_at: storeTime(this.#options.clock.now()),
		};
		// Fails if the passkey was used or removed in the meantime.
		return (await this.#options.store.writer.transaction(trx => usePasskey(trx, passkey, used)))
			? passkey
			: undefined;
	}
}

/** Removes a passkey, or returns `undefined` if the user does not have it. */
export async function removePasskey(
	trx: Knex.Transaction,
	tools: ActTools,
	user: User,
	id: string,
): Promise<Passkey | undefined> {
	const passkey = await deletePasskey(trx, user.id, id);
	if (passkey) {
		await recordUserAct(trx, tools, user, 'passkey_removed', {passkey: id, name: passkey.name});
	}
	return passkey;
}
