import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {hourMs, storeTime} from '../kit/time.ts';
import type {ActTools, Operator, Role} from '../mail/operator.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
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
} from '../store/users.ts';
import {createToken, operatorOf, recordUserAct, tokenHash} from './users.ts';

const idleMs = 12 * hourMs;
const wholeMs = 7 * 24 * hourMs;
const noteMs = 60_000;

/** Who asks for a page. */
export type SignedIn = {
	readonly sessionId: string;
	readonly user: {
		readonly id: string;
		readonly email: string;
		readonly role: Role;
		/** Null: all workspaces. */
		readonly workspaceId: string | null;
	};
	/** The workspace that is looked at: the user's own, or the one that was chosen; null: none was. */
	readonly workspaceId: string | null;
	/** When they last proved who they are, in the store's form. */
	readonly confirmedAt: string;
};

/** How a person proved who they are. */
export type Proof = 'link' | 'password' | 'passkey' | 'oidc';
type Client = {readonly address: string; readonly agent: string};

/** Sessions that began before or were not seen since these times have ended: 12 hours idle, 7 days in all. */
export function sessionLimits(now: number): SessionLimits {
	return {begun: storeTime(now - wholeMs), seen: storeTime(now - idleMs)};
}

type SessionsOptions = Omit<ActTools, 'operator'> & {readonly store: Pick<Store, 'reader' | 'writer'>};

/** The sessions of the dashboard. The store has only hashes of their tokens. */
export class Sessions {
	readonly #options: SessionsOptions;

	constructor(options: SessionsOptions) {
		this.#options = options;
	}

	/** Null: there is no such session, or it has ended. */
	async find(token: string): Promise<SignedIn | null> {
		const {store, clock} = this.#options;
		const now = clock.now();
		const row = await findUserSession(store.reader, tokenHash(token), sessionLimits(now));
		if (!row) {
			return null;
		}
		if (now - Date.parse(row.seen_at) >= noteMs) {
			// A store that cannot be written, as on a full disk, can still be looked at.
			const note = (trx: Knex.Transaction) => updateUserSession(trx, row.id, {seen_at: storeTime(now)});
			await store.writer.transaction(note).catch(() => undefined);
		}
		const {email, role, of_workspace: workspaceId} = row;
		return {
			sessionId: row.id,
			user: {id: row.user_id, email, role, workspaceId},
			workspaceId: workspaceId ?? row.workspace_id,
			confirmedAt: row.confirmed_at,
		};
	}

	/** Starts a session of a user who proved who they are; returns the token for the cookie. */
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
			await recordUserAct(trx, {clock, newId, operator: operatorOf(user, address)}, user, 'logged_in', {by});
		});
		return token;
	}

	/** Ends one session of a user (`id`), or all of them but `except` (null: every one); how many there were. */
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

	/** Those that have not ended, newest first. */
	async listOf(userId: string): Promise<UserSession[]> {
		const {store, clock} = this.#options;
		return await listUserSessions(store.reader, userId, sessionLimits(clock.now()));
	}

	/** Notes which workspace is looked at; for a user of one workspace that changes nothing. */
	async choose(sessionId: string, workspaceId: string | null): Promise<void> {
		const {writer} = this.#options.store;
		await writer.transaction(trx => updateUserSession(trx, sessionId, {workspace_id: workspaceId}));
	}

	/** Notes that the user has just proved again who they are. */
	async confirm(sessionId: string): Promise<void> {
		const {store, clock} = this.#options;
		const confirmed_at = storeTime(clock.now());
		await store.writer.transaction(trx => updateUserSession(trx, sessionId, {confirmed_at}));
	}
}

const holdsMs = 5 * 60_000;
const maxRetained = 10_000;

/** What a client carries from one step of a log-in to the next; it can neither be read nor changed there. */
export class Pending<Content> {
	readonly #vault: Vault;
	readonly #clock: Pick<Clock, 'now'>;
	readonly #owner: string;
	readonly #taken = new LRUCache<string, true>(atMost(maxRetained));

	/** `kind` keeps the steps of one kind of log-in from passing as those of another. */
	constructor(vault: Vault, clock: Pick<Clock, 'now'>, kind: string) {
		this.#vault = vault;
		this.#clock = clock;
		this.#owner = `pending ${kind}`;
	}

	seal(content: Content): string {
		return this.#vault.seal(this.#owner, JSON.stringify({content, until: this.#clock.now() + holdsMs}));
	}

	/** Undefined: it is unknown, or older than five minutes. */
	open(sealed: string): Content | undefined {
		return this.#opened(sealed)?.content;
	}

	/** As `open`, but only once (in this process). */
	take(sealed: string): Content | undefined {
		const found = this.#opened(sealed);
		// By what was sealed: base64 has several spellings of it.
		if (found === undefined || this.#taken.has(found.text)) {
			return undefined;
		}
		this.#taken.set(found.text, true);
		return found.content;
	}

	#opened(sealed: string): {readonly text: string; readonly content: Content} | undefined {
		try {
			const text = this.#vault.open(this.#owner, sealed);
			const {content, until} = JSON.parse(text) as {content: Content; until: number};
			return this.#clock.now() < until ? {text, content} : undefined;
		} catch {
			return undefined;
		}
	}
}
