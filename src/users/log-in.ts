import type {Clock} from '../kit/clock.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {findUser, findUserByEmail, type User} from '../store/users.ts';
import type {Attempt, Attempts} from './attempts.ts';
import {takeCode} from './credentials.ts';
import {isPassword} from './password.ts';
import {createPending} from './pending.ts';
import {emailKey} from './users.ts';

type LogInOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly vault: Vault;
	readonly clock: Pick<Clock, 'now'>;
	readonly attempts: Attempts;
};

/** How a log-in ended. `pending` proves the right password until the code comes, for five minutes. */
export type LogIn =
	| {readonly ok: true; readonly user: User}
	| {readonly ok: false; readonly reason: 'limited'; readonly seconds: number}
	| {readonly ok: false; readonly reason: 'wrong'}
	| Busy
	| {readonly ok: false; readonly reason: 'code_needed' | 'code_wrong'; readonly pending: string};

/** More passwords are being checked than the machine can do soon. */
export type Busy = {readonly ok: false; readonly reason: 'busy'};

/** `address` is the client's. */
type PasswordLogIn = {
	readonly email: string;
	readonly password: string;
	readonly address: string;
};

const wrong = {ok: false, reason: 'wrong'} as const;
const busy: Busy = {ok: false, reason: 'busy'};

export type PasswordLogIns = ReturnType<typeof createLogIn>;

/** Log-in by password, and the one-time code after it. An unknown address takes as long as a wrong password. */
export function createLogIn({store, vault, clock, attempts}: LogInOptions) {
	const waiting = createPending<{readonly id: string}>(vault, clock, 'one-time code');

	/** Refused after too many failures; else an attempt that has failed unless `work` says otherwise. */
	async function counted(attempt: Attempt, work: () => Promise<LogIn>): Promise<LogIn> {
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
			return await counted({address, account}, async () => {
				const user = await findUserByEmail(store.reader, account);
				const isRight = await isPassword(password, user?.password_hash ?? null);
				if (isRight === null) {
					return busy;
				}
				if (!isRight || !user) {
					return wrong;
				}
				return user.totp === null
					? {ok: true, user}
					: {ok: false, reason: 'code_needed', pending: waiting.seal({id: user.id})};
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
			const begun = waiting.open(pending);
			const user = begun && (await findUser(store.reader, begun.id));
			return await counted({address, account: user?.email ?? null, isCode: true}, async () => {
				const isRight = user && (await takeCode(store, vault, user, {code, now: clock.now()}));
				return isRight ? {ok: true, user} : user ? {ok: false, reason: 'code_wrong', pending} : wrong;
			});
		},
	};
}
