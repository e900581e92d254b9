import type {FastifyInstance, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import type {Accept} from '../accept/send.ts';
import type {OpenSources} from '../domains/check-records.ts';
import type {ReviewDmarc} from '../domains/dmarc.ts';
import type {SendingNames} from '../domains/domain-records.ts';
import type {SigningKeys} from '../domains/signing-keys.ts';
import type {Tools} from '../mail/operator.ts';
import type {Erase} from '../outcome/erase.ts';
import type {Feed} from '../outcome/feed.ts';
import type {Alert} from '../store/alerts.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';
import type {Endpoint} from '../store/webhooks.ts';
import type {AddressGuard} from '../webhook/address-guard.ts';
import type {PostEnd} from '../webhook/post.ts';
import type {Auth} from './auth.ts';
import {apiError} from './errors.ts';
import type {Cursors} from './paging.ts';
import type {RateLimits} from './rate-limit.ts';

/** A mail that was made again, with what its template rendered; or why it cannot be made. */
type RemadeMail =
	| {
			readonly ok: true;
			readonly mail: Uint8Array;
			readonly content: {readonly subject: string; readonly html: string; readonly text: string};
	  }
	| {readonly ok: false; readonly message: string}
	| 'no_sender';

/** The mail of copies, to be looked at. */
type Mails = {
	/** Null: it was not captured. */
	readonly captured: (recipientId: string) => Promise<Uint8Array | null>;
	readonly remade: (workspaceId: string, recipientId: string) => Promise<RemadeMail>;
};

/** `expiresAt`: milliseconds since the epoch. */
type PreferencesLink = {readonly url: string; readonly expiresAt: number};

/** What the routes of the API work with. */
export type ApiParts = {
	readonly auth: Auth;
	readonly reader: Knex;
	/**
	 * Runs a change in a transaction. When it resolves, this process remembers nothing of before; `work` must bump the
	 * change generation where others remember what it changes.
	 */
	readonly change: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	/** For writes of what no process remembers. */
	readonly writer: Writer;
	readonly tools: Tools;
	/** Seals and opens secrets of the store. */
	readonly vault: Vault;
	readonly cursors: Cursors;
	readonly accept: Accept;
	readonly limits: RateLimits;
	readonly erase: Erase;
	/** Where events are followed; its end ends the streams. */
	readonly feed: Feed;
	readonly mails: Mails;
	/** Makes a link to the preference page of a person; it holds as long as those in mail. */
	readonly preferencesLink: (person: {
		readonly workspaceId: string;
		readonly address: string;
	}) => Promise<PreferencesLink>;
	/** The message of a Message-ID; null: not one of ours. */
	readonly readMessageId: (messageId: string) => string | null;
	/** The Message-ID of a message from a template, without angle brackets. */
	readonly messageIdOf: (messageId: string, from: string) => string;
	readonly domains: {
		readonly names: SendingNames;
		/** Names that no domain may have for its links. */
		readonly ownHosts: readonly string[];
		readonly openSources: OpenSources;
		readonly reviewDmarc: ReviewDmarc;
		/** Whether the daemon asks DNS about domains by itself. */
		readonly areChecked: boolean;
		/** In turns: an RSA key takes some hundred milliseconds of a core, in the pool that SQLite works in. */
		readonly makeKeys: (workspaceId: string) => Promise<SigningKeys>;
	};
	readonly webhooks: {
		readonly guard: AddressGuard;
		/** Something for these endpoints was committed and is due now. */
		readonly onDue: (endpointIds: readonly string[]) => void;
		/** Posts an example event now, and stores nothing of it. */
		readonly postExample: (endpoint: Endpoint) => Promise<Pick<PostEnd, 'status' | 'error' | 'ms'>>;
	};
	/** Sends a test of an alert now; null: it went out, else why it did not. */
	readonly testAlert: (alert: Alert) => Promise<string | null>;
	/** Where this installation is reached from outside. */
	readonly publicUrl: () => string;
	/** False while outcomes cannot be stored: then nothing new is taken in either. */
	readonly mayAccept: () => boolean;
};

export type Api = FastifyInstance;

/** Adds routes of one resource. */
export type Routes = (api: Api) => void;

/** Bodies of types without a parser answer 415; an empty body is fine with any type. */
export function refuseOtherBodies(api: Api, message?: string): void {
	const refusal = message === undefined ? {} : {message};
	api.addContentTypeParser('*', (request, _payload, done) => {
		const {headers} = request;
		const empty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
		done(empty ? null : apiError('unsupported_media_type', refusal), undefined);
	});
}

/** Whether the body is sent as it is: no content encoding is undone here. */
export function isPlain({headers}: FastifyRequest): boolean {
	const encoding = headers['content-encoding'];
	return encoding === undefined || encoding === '' || encoding.toLowerCase() === 'identity';
}
