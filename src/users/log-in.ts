import type {Clock} from '../mail/clock.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {findUser, findUserByEmail, type User} from '../store/users.ts';
import type {Attempts} from './attempts.ts';
import {takeCode} from './credentials.ts';
import {isPassword} from './password.ts';
import {createPending} from './pending.ts';
import {emailKey} from './users.ts';

export type LogInOptions = {
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
	| {readonly ok: false; readonly reason: 'code_needed' | 'code_wrong'; readonly pending: string};

/** `address` is the client's. */
export type PasswordLogIn = {
	readonly email: string;
	readonly password: string;
	readonly code?: string;
	readonly address: string;
};

const wrong = {ok: false, reason: 'wrong'} as const;

export type PasswordLogIns = ReturnType<typeof createLogIn>;

/** Log-in by password, and the one-time code after it. An unknown address takes as long as a wrong password. */
export function createLogIn({store, vault, clock, attempts}: LogInOptions) {
	const waiting = createPending<{readonly id: string}>(vault, clock, 'one-time code');
	const needsCode = ({id}: User, reason: 'code_needed' | 'code_wrong'): LogIn => ({
		ok: false,
		reason,
		pending: waiting.seal({id}),
	});

	/** Refused where there were too many failures; else an attempt that has failed unless `work` says otherwise. */
	async function attempt(address: string, account: string | null, work: () => Promise<LogIn>): Promise<LogIn> {
		const seconds = attempts.begin(address, account);
		if (seconds !== null) {
			return {ok: false, reason: 'limited', seconds};
		}
		const result = await work();
		if (result.ok || result.reason === 'code_needed') {
			attempts.succeeded(address, account);
		}
		return result;
	}

	return {
		async logIn({email, password, code, address}: PasswordLogIn): Promise<LogIn> {
			const account = emailKey(email);
			return await attempt(address, account, async () => {
				const user = await findUserByEmail(store.reader, account);
				if (!(await isPassword(password, user?.password_hash ?? null)) || !user) {
					return wrong;
				}
				if (user.totp === null) {
					return {ok: true, user};
				}
				if (code === undefined) {
					return needsCode(user, 'code_needed');
				}
				const isRight = await takeCode(store, vault, user, {code, now: clock.now()});
				return isRight ? {ok: true, user} : needsCode(user, 'code_wrong');
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
			return await attempt(address, user?.email ?? null, async () => {
				const isRight = user && (await takeCode(store, vault, user, {code, now: clock.now()}));
				return isRight ? {ok: true, user} : user ? {ok: false, reason: 'code_wrong', pending} : wrong;
			});
		},
	};
}
