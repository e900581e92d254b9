import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../../kit/clock.ts';
import {atMost} from '../../kit/collections.ts';
import {hourMs, storeTime} from '../../kit/time.ts';
import type {ActTools, Operator, Role} from '../../mail/operator.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import {createToken, recordUserAct, tokenHash, toOperator} from './rules.ts';
import {
	deleteUserSessions,
	findUser,
	findUserSession,
	insertUserSession,
	listUserSessions,
	type SessionLimits,
	type User,
	type UserSession,
	updateUser,
	updateUserSession,
} from './store.ts';

const maxIdleMs = 12 * hourMs;
const maxSessionMs = 7 * 24 * hourMs;
const seenIntervalMs = 60_000;

/** The user who requests a page. */
export type SignedIn = {
	readonly sessionId: string;
	readonly user: {
		readonly id: string;
		readonly email: string;
		readonly role: Role;
		/** `null` for users of all workspaces. */
		readonly workspaceId: string | null;
	};
	/** The current workspace: the user's own or the selected one; `null` if none is selected. */
	readonly workspaceId: string | null;
	/** When the user last authenticated, in the store's format. */
	readonly confirmedAt: string;
};

/** How a user authenticated. */
export type Proof = 'link' | 'password' | 'passkey' | 'oidc';
type Client = {readonly address: string; readonly agent: string};

/** Returns the limits of a valid session, which started within the last 7 days and was used in the last 12 hours. */
export function sessionLimits(now: number): SessionLimits {
	return {begun: storeTime(now - maxSessionMs), seen: storeTime(now - maxIdleMs)};
}

type SessionsOptions = Omit<ActTools, 'operator'> & {readonly store: Pick<Store, 'reader' | 'writer'>};

/** Manages the sessions of the dashboard. The store holds only hashes of their tokens. */
export class Sessions {
	readonly #options: SessionsOptions;

	constructor(options: SessionsOptions) {
		this.#options = options;
	}

	/** Returns `null` if the session does not exist or has expired. */
	async find(token: string): Promise<SignedIn | null> {
		const {store, clock} = this.#options;
		const now = clock.now();
		const row = await findUserSession(store.reader, tokenHash(token), sessionLimits(now));
		if (!row) {
			return null;
		}
		if (now - Date.parse(row.seen_at) >= seenIntervalMs) {
			// A failed write is ignored, so that the dashboard can be viewed while the disk is full.
			const touch = (trx: Knex.Transaction) => updateUserSession(trx, row.id, {seen_at: storeTime(now)});
			await store.writer.transaction(touch).catch(() => undefined);
		}
		const {email, role, of_workspace: workspaceId} = row;
		return {
			sessionId: row.id,
			user: {id: row.user_id, email, role, workspaceId},
			workspaceId: workspaceId ?? row.workspace_id,
			confirmedAt: row.confirmed_at,
		};
	}

	/** Starts a session for an authenticated user and returns the token for the cookie. */
	async start(user: User, {address, agent, by}: Client & {readonly by: Proof}): Promise<string> {
		const {store, clock, newId, random} = this.#options;
		const token = createToken(random);
		const at = storeTime(clock.now());
		await store.writer.transaction(async trx => {
			await insertUserSession(trx, {
				id: newId('ses'),
				user_id: user.id,
				token_hash: tokenHash(token),
				workspace_id: user.workspace_id,
				created_at: at,
				seen_at: at,
				confirmed_at: at,
				address,
				agent: agent.slice(0, 200),
			});
			await updateUser(trx, user.id, {last_login_at: at});
			await recordUserAct(trx, {clock, newId, operator: toOperator(user, address)}, user, 'logged_in', {by});
		});
		return token;
	}

	/** Ends the session `id` of a user, or all of them except `except` (`null` for all). Returns their number. */
	async end(
		userId: string,
		which: {readonly id: string} | {readonly except: string | null},
		operator: Operator,
	): Promise<number> {
		const {store, clock, newId} = this.#options;
		return await store.writer.transaction(async trx => {
			const user = await findUser(trx, userId);
			const ended = user ? await deleteUserSessions(trx, userId, which) : 0;
			if (user && ended > 0) {
				await recordUserAct(trx, {clock, newId, operator}, user, 'logged_out', {sessions: ended});
			}
			return ended;
		});
	}

	/** Lists the active sessions of a user, newest first. */
	async listOf(userId: string): Promise<UserSession[]> {
		const {store, clock} = this.#options;
		return await listUserSessions(store.reader, userId, sessionLimits(clock.now()));
	}

	/** Selects the current workspace. This has no effect for users of one workspace. */
	async choose(sessionId: string, workspaceId: string | null): Promise<void> {
		const {writer} = this.#options.store;
		await writer.transaction(trx => updateUserSession(trx, sessionId, {workspace_id: workspaceId}));
	}

	/** Records that the user has just re-authenticated. */
	async confirm(sessionId: string): Promise<void> {
		const {store, clock} = this.#options;
		const confirmed_at = storeTime(clock.now());
		await store.writer.transaction(trx => updateUserSession(trx, sessionId, {confirmed_at}));
	}
}

const maxPendingMs = 5 * 60_000;
const maxRetained = 10_000;

/** State that a client carries from one step of a login to the next. The client can neither read nor change it. */
export class Pending<Content> {
	readonly #vault: Vault;
	readonly #clock: Pick<Clock, 'now'>;
	readonly #owner: string;
	readonly #used = new LRUCache<string, true>(atMost(maxRetained));

	/** `kind` binds the state to one kind of login, so that it is not accepted by another. */
	constructor(vault: Vault, clock: Pick<Clock, 'now'>, kind: string) {
		this.#vault = vault;
		this.#clock = clock;
		this.#owner = `pending ${kind}`;
	}

	seal(content: Content): string {
		return this.#vault.seal(this.#owner, JSON.stringify({content, until: this.#clock.now() + maxPendingMs}));
	}

	/** Returns `undefined` if the state is invalid or older than five minutes. */
	open(sealed: string): Content | undefined {
		return this.#unseal(sealed)?.content;
	}

	/** Like `open`, but succeeds only once (in this process). */
	take(sealed: string): Content | undefined {
		const opened = this.#unseal(sealed);
		// Compares the opened text, because the same bytes have several base64 spellings.
		if (opened === undefined || this.#used.has(opened.text)) {
			return undefined;
		}
		this.#used.set(opened.text, true);
		return opened.content;
	}

	#unseal(sealed: string): {readonly text: string; readonly content: Content} | undefined {
		try {
			const text = this.#vault.open(this.#owner, sealed);
			const {content, until} = JSON.parse(text) as {content: Content; until: number};
			return this.#clock.now() < until ? {text, content} : undefined;
		} catch {
			return undefined;
		}
	}
}
