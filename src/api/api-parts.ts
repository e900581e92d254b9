import type {FastifyInstance, FastifyRequest} from 'fastify';
import type {Knex} from 'knex';
import {apiError} from '../mail/api-error.ts';
import type {Tools} from '../mail/operator.ts';
import type {Erase} from '../outcome/erase.ts';
import type {Feed} from '../outcome/feed.ts';
import type {Alert} from '../resources/alerts/store.ts';
import type {OpenSources} from '../resources/domains/check-records.ts';
import type {ReviewDmarc} from '../resources/domains/dmarc.ts';
import type {SendingNames} from '../resources/domains/domain-records.ts';
import type {SigningKeys} from '../resources/domains/signing-keys.ts';
import type {AddressGuard} from '../resources/webhooks/address-guard.ts';
import type {PostResult} from '../resources/webhooks/post.ts';
import type {Endpoint} from '../resources/webhooks/store.ts';
import type {Accept} from '../send/send.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';
import type {Auth} from './auth.ts';
import type {Cursors} from './paging.ts';
import type {RateLimits} from './rate-limit.ts';
import type {WorkLimits} from './work-limits.ts';

/** A message rendered again, with its subject, HTML and text, or the reason why it cannot be rendered. */
type RerenderedMessage =
	| {
			readonly ok: true;
			readonly mail: Uint8Array;
			readonly content: {readonly subject: string; readonly html: string; readonly text: string};
	  }
	| {readonly ok: false; readonly message: string}
	| 'no_sender';

/** Reads the content of messages for display. */
type MessageContent = {
	/** Returns the captured message, or `null` if it was not captured. */
	readonly captured: (recipientId: string) => Promise<Uint8Array | null>;
	readonly rerender: (workspaceId: string, recipientId: string) => Promise<RerenderedMessage>;
};

/** A link to a preference page; `expiresAt` is in milliseconds since the epoch. */
type PreferencesLink = {readonly url: string; readonly expiresAt: number};

/** The dependencies of the API's routes. */
export type ApiParts = {
	readonly auth: Auth;
	readonly reader: Knex;
	/**
	 * Runs a change in a transaction and clears this process's caches before it resolves. If other processes cache what
	 * `work` changes, `work` must also bump the change generation, so that they clear theirs.
	 */
	readonly change: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	/** For writes to data that no process caches. */
	readonly writer: Writer;
	readonly tools: Tools;
	/** Encrypts and decrypts the store's secrets. */
	readonly vault: Vault;
	readonly cursors: Cursors;
	readonly accept: Accept;
	readonly limits: RateLimits;
	readonly work: WorkLimits;
	readonly erase: Erase;
	/** The source of event streams. Closing it ends them. */
	readonly feed: Feed;
	readonly messageContent: MessageContent;
	/** Creates a link to a person's preference page. It is valid for as long as the links in messages. */
	readonly preferencesLink: (person: {
		readonly workspaceId: string;
		readonly address: string;
	}) => Promise<PreferencesLink>;
	/** Returns the id of the message with this Message-ID, or `null` if mailctl did not create the Message-ID. */
	readonly readMessageId: (messageId: string) => string | null;
	/** Returns the Message-ID of a message created from a template, without angle brackets. */
	readonly messageIdOf: (messageId: string, from: string) => string;
	readonly domains: {
		readonly names: SendingNames;
		/** Host names that no domain may use for its links. */
		readonly ownHosts: readonly string[];
		readonly openSources: OpenSources;
		readonly reviewDmarc: ReviewDmarc;
		/** Whether the daemon checks domains periodically. */
		readonly areChecked: boolean;
		/** Creates keys one by one: an RSA key takes about 100 ms of CPU in the thread pool that SQLite also uses. */
		readonly makeKeys: (workspaceId: string) => Promise<SigningKeys>;
	};
	readonly webhooks: {
		readonly guard: AddressGuard;
		/** Reports that deliveries to these endpoints were committed and are due. */
		readonly reportDue: (endpointIds: readonly string[]) => void;
		/** Posts an example event now and stores nothing. */
		readonly postExample: (endpoint: Endpoint) => Promise<Pick<PostResult, 'status' | 'error' | 'ms'>>;
	};
	/** Sends a test of an alert now. Returns `null` if it was sent, otherwise the reason for the failure. */
	readonly testAlert: (alert: Alert) => Promise<string | null>;
	/** The URL of this installation, as seen from outside. */
	readonly publicUrl: () => string;
	/** Returns `false` while outcomes cannot be stored, so that no new messages are accepted. */
	readonly mayAccept: () => boolean;
};

export type Api = FastifyInstance;

/** Adds routes to a server. */
export type Routes = (api: Api) => void;

/** A declared route of the API, which gets its dependencies only when it is added. */
export type Route = (parts: ApiParts) => Routes;

/** Responds with 415 to a body whose media type has no parser. An empty body is accepted with any type. */
export function refuseOtherBodies(api: Api, message?: string): void {
	const refusal = message === undefined ? {} : {message};
	api.addContentTypeParser('*', (request, _payload, done) => {
		const {headers} = request;
		const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
		done(isEmpty ? null : apiError('unsupported_media_type', refusal), undefined);
	});
}

/** Whether the body has no content encoding. Encoded bodies are not supported. */
export function isPlain({headers}: FastifyRequest): boolean {
	const encoding = headers['content-encoding'];
	return encoding === undefined || encoding === '' || encoding.toLowerCase() === 'identity';
}
