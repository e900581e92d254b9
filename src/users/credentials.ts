import type {ActTools} from '../mail/operator.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {deleteUserSessions, takeTotpStep, type User, updateUser} from '../store/users.ts';
import type {Busy} from './log-in.ts';
import {hashPassword, passwordFault} from './password.ts';
import {isTotpSecret, stepOfCode} from './totp.ts';
import {recordUserAct} from './users.ts';

type Writing = Pick<Store, 'writer'>;

/** `fault`: what is wrong with the password, a clause for people (`must …`). */
type PasswordSet = {readonly ok: true} | Busy | {readonly ok: false; readonly reason: 'fault'; readonly fault: string};

/** Sets a user's password and ends all of their sessions but `sessionId`. */
export async function setPassword(
	{writer}: Writing,
	tools: ActTools,
	{user, password, sessionId}: {readonly user: User; readonly password: string; readonly sessionId: string | null},
): Promise<PasswordSet> {
	const fault = passwordFault(password, user.email);
	if (fault !== null) {
		return {ok: false, reason: 'fault', fault};
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

/** From now on a log-in by password wants a one-time code too. False: `code` is not one of this secret. */
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

/** No code is asked for any more. */
export async function removeTotp({writer}: Writing, tools: ActTools, user: User): Promise<void> {
	await writer.transaction(async trx => {
		if (await updateUser(trx, user.id, {totp: null, totp_step: null})) {
			await recordUserAct(trx, tools, user, 'totp_removed');
		}
	});
}

/** Uses up a one-time code of a user. False: it is wrong or was used before. */
export async function takeCode(
	{writer}: Writing,
	vault: Vault,
	user: User,
	{code, now}: {readonly code: string; readonly now: number},
): Promise<boolean> {
	const step = user.totp === null ? null : stepOfCode(vault.open(user.id, user.totp), code, now);
	return step !== null && (await writer.transaction(trx => takeTotpStep(trx, user.id, step)));
}
