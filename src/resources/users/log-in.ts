import {randomBytes, type ScryptOptions, scrypt, timingSafeEqual} from 'node:crypto';
import type {Clock} from '../../kit/clock.ts';
import type {ActTools} from '../../mail/operator.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import type {Attempt, FailedLogIns} from './failed-log-ins.ts';
import {emailKey, recordUserAct, useLink} from './rules.ts';
import {Pending} from './sessions.ts';
import {deleteUserSessions, findUser, findUserByEmail, takeTotpStep, type User, updateUser} from './store.ts';
import {isTotpSecret, stepOfCode} from './totp.ts';

type Writing = Pick<Store, 'writer'>;

/** `fault` is the problem with the password as a clause for people (`must …`). */
type PasswordSet =
	| {readonly ok: true}
	| Busy
	| {readonly ok: false; readonly reason: 'fault'; readonly problem: string};

/** Sets a user's password and ends all their sessions except `sessionId`. */
export async function setPassword(
	{writer}: Writing,
	tools: ActTools,
	{user, password, sessionId}: {readonly user: User; readonly password: string; readonly sessionId: string | null},
): Promise<PasswordSet> {
	const problem = passwordProblem(password, user.email);
	if (problem !== null) {
		return {ok: false, reason: 'fault', problem};
	}
	const password_hash = await hashPassword(password);
	if (password_hash === null) {
		return {ok: false, reason: 'busy'};
	}
	await writer.transaction(async trx => {
		if (await updateUser(trx, user.id, {password_hash})) {
			await deleteUserSessions(trx, user.id, {except: sessionId});
			await recordUserAct(trx, tools, user, 'password_set');
		}
	});
	return {ok: true};
}

/** Requires a one-time code in addition to the password. Returns `false` if `code` does not match the secret. */
export async function setTotp(
	{writer}: Writing,
	tools: ActTools,
	vault: Vault,
	{user, secret, code}: {readonly user: User; readonly secret: string; readonly code: string},
): Promise<boolean> {
	const step = isTotpSecret(secret) ? stepOfCode(secret, code, tools.clock.now()) : null;
	if (step === null) {
		return false;
	}
	await writer.transaction(async trx => {
		if (await updateUser(trx, user.id, {totp: vault.seal(user.id, secret), totp_step: step})) {
			await recordUserAct(trx, tools, user, 'totp_set');
		}
	});
	return true;
}

/** Stops requiring one-time codes of a user. */
export async function removeTotp({writer}: Writing, tools: ActTools, user: User): Promise<void> {
	await writer.transaction(async trx => {
		if (await updateUser(trx, user.id, {totp: null, totp_step: null})) {
			await recordUserAct(trx, tools, user, 'totp_removed');
		}
	});
}

/** Consumes a one-time code of a user. Returns `false` if it is wrong or was used before. */
async function consumeCode(
	{writer}: Writing,
	vault: Vault,
	user: User,
	{code, now}: {readonly code: string; readonly now: number},
): Promise<boolean> {
	const step = user.totp === null ? null : stepOfCode(vault.open(user.id, user.totp), code, now);
	return step !== null && (await writer.transaction(trx => takeTotpStep(trx, user.id, step)));
}

type LogInOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly vault: Vault;
	readonly clock: Pick<Clock, 'now'>;
	readonly attempts: FailedLogIns;
};

/** The result of a login. `pending` proves the correct password for five minutes, until the code is entered. */
export type LogIn =
	| {readonly ok: true; readonly user: User}
	| {readonly ok: false; readonly reason: 'limited'; readonly seconds: number}
	| {readonly ok: false; readonly reason: 'wrong'}
	| Busy
	| {readonly ok: false; readonly reason: 'code_needed' | 'code_wrong'; readonly pending: string};

/** Too many passwords are waiting to be checked. */
type Busy = {readonly ok: false; readonly reason: 'busy'};

/** `address` is the IP address of the client. */
type PasswordLogIn = {
	readonly email: string;
	readonly password: string;
	readonly address: string;
};

const wrong = {ok: false, reason: 'wrong'} as const;
const busy: Busy = {ok: false, reason: 'busy'};

export type PasswordLogIns = ReturnType<typeof createLogIn>;

/**
 * Signs users in by password and one-time code, or by link. An unknown address takes as long as a wrong password, so
 * that users cannot be enumerated.
 */
export function createLogIn({store, vault, clock, attempts}: LogInOptions) {
	const awaitingCode = new Pending<{readonly id: string}>(vault, clock, 'one-time code');

	/** Runs `work` unless there were too many failures. The attempt counts as failed unless `work` succeeds. */
	async function limited(attempt: Attempt, work: () => Promise<LogIn>): Promise<LogIn> {
		const seconds = attempts.begin(attempt);
		if (seconds !== null) {
			return {ok: false, reason: 'limited', seconds};
		}
		const result = await work();
		if (result.ok || result.reason === 'code_needed' || result.reason === 'busy') {
			attempts.succeeded(attempt);
		}
		return result;
	}

	return {
		async logIn({email, password, address}: PasswordLogIn): Promise<LogIn> {
			const account = emailKey(email);
			return await limited({address, account}, async () => {
				const user = await findUserByEmail(store.reader, account);
				const isCorrect = await isPassword(password, user?.password_hash ?? null);
				if (isCorrect === null) {
					return busy;
				}
				if (!isCorrect || !user) {
					return wrong;
				}
				return user.totp === null
					? {ok: true, user}
					: {ok: false, reason: 'code_needed', pending: awaitingCode.seal({id: user.id})};
			});
		},
		async enterCode({
			pending,
			code,
			address,
		}: {
			readonly pending: string;
			readonly code: string;
			readonly address: string;
		}): Promise<LogIn> {
			const login = awaitingCode.open(pending);
			const user = login && (await findUser(store.reader, login.id));
			return await limited({address, account: user?.email ?? null, isCode: true}, async () => {
				if (!user) {
					return wrong;
				}
				const isCorrect = await consumeCode(store, vault, user, {code, now: clock.now()});
				return isCorrect ? {ok: true, user} : {ok: false, reason: 'code_wrong', pending};
			});
		},
		/** Consumes the link of a token. A guessed token counts as a wrong password of its network. */
		async openLink({token, address}: {readonly token: string; readonly address: string}): Promise<LogIn> {
			return await limited({address, account: null}, async () => {
				const user = await store.writer.transaction(trx => useLink(trx, {clock}, token));
				return user ? {ok: true, user} : wrong;
			});
		},
	};
}

const minCharacters = 12;
const maxCharacters = 256;

/** Returns the problem with a new password as a clause for people, or `null`. */
export function passwordProblem(password: string, email: string): string | null {
	const length = [...password].length;
	if (length < minCharacters) {
		return `must have at least ${minCharacters} characters, such as three or four words`;
	}
	if (length > maxCharacters) {
		return `must have at most ${maxCharacters} characters`;
	}
	return password.toLowerCase().includes(email) ? 'must not contain your email address' : null;
}

type Cost = {readonly N: number; readonly r: number; readonly p: number};

/** Of the settings that OWASP lists as equally strong, the one that needs 32 MiB. */
const cost: Cost = {N: 2 ** 15, r: 8, p: 3};
const saltBytes = 16;
const hashBytes = 32;
const hashFormat = /^scrypt:(\d+):(\d+):(\d+):([\w-]+):([\w-]+)$/;

/** Returns `scrypt:N:r:p:salt:hash`, the last two in base64url, or `null` if too many passwords are waiting. */
export async function hashPassword(password: string, salt: Buffer = randomBytes(saltBytes)): Promise<string | null> {
	const derivedKey = await derive(password, salt, cost);
	return (
		derivedKey &&
		`scrypt:${cost.N}:${cost.r}:${cost.p}:${salt.toString('base64url')}:${derivedKey.toString('base64url')}`
	);
}

/**
 * Whether a password matches a hash. Without a hash the result is `false`, after the same time. Returns `null` if too
 * many passwords are waiting.
 */
export async function isPassword(password: string, hash: string | null): Promise<boolean | null> {
	const [, N, r, p, salt = '', expected = ''] = hashFormat.exec(hash ?? '') ?? [];
	const hashCost = expected === '' ? cost : {N: Number(N), r: Number(r), p: Number(p)};
	const derivedKey = await derive(password, Buffer.from(salt, 'base64url'), hashCost);
	const stored = Buffer.from(expected, 'base64url');
	return derivedKey && stored.length === derivedKey.length && timingSafeEqual(stored, derivedKey);
}

/** A derivation takes a third of a second, so this bounds the time that a request waits. */
const maxWaiting = 10;
let waitingCount = 0;
let previous: Promise<unknown> = Promise.resolve();

// Derivations run one at a time, because each occupies a thread of the pool that SQLite uses too, and much memory.
async function derive(password: string, salt: Buffer, cost: Cost): Promise<Buffer | null> {
	if (waitingCount >= maxWaiting) {
		return null;
	}
	waitingCount++;
	const derivedKey = previous.then(() => computeScrypt(password, salt, {...cost, maxmem: 256 * cost.N * cost.r}));
	previous = derivedKey.catch(() => undefined).then(() => waitingCount--);
	return await derivedKey;
}

/** A character has at most two code units. One more is retained, so that a longer text never equals one that fits. */
const maxCodeUnits = maxCharacters * 2 + 1;

// Normalized, because keyboards compose the same letters differently. The text is truncated first, because
// normalizing a megabyte of combining marks would take minutes.
function computeScrypt(password: string, salt: Buffer, options: ScryptOptions): Promise<Buffer> {
	const composed = password
		.slice(0, maxCodeUnits)
		.normalize('NFKC')
		.slice(0, maxCharacters * 4);
	return new Promise((resolve, reject) => {
		scrypt(composed, salt, hashBytes, options, (error, derivedKey) =>
			error ? reject(error) : resolve(derivedKey),
		);
	});
}
