import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {parsedJson} from '../kit/exact-json.ts';
import {storeTime} from '../kit/time.ts';
import {apiKeyHash} from '../mail/api-key.ts';
import {isProviderName, ownerOf, type ProviderPostEnd} from '../mail/provider.ts';
import {type InboundSource, precedence, type ReadingTurn} from '../mail/report.ts';
import {type ProviderClient, ProviderHostError} from '../net/provider-client.ts';
import {countUnreadEvents, hasInbound} from '../resources/received/inbound-store.ts';
import {
	findSmarthostByToken,
	type Smarthost,
	smarthostNoteWrite,
	updateSmarthost,
} from '../resources/smarthosts/store.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';
import {type Accepted, digestInbound} from './accept-inbound.ts';
import {OwnerBatches} from './owner-batches.ts';
import type {Fields, Incoming} from './providers/provider.ts';
import {providers} from './providers/providers.ts';
import {eventBytes, type StoredEvent} from './providers/read-event.ts';
import {readSns, type SnsMessage} from './providers/ses.ts';

/** Stores what arrived. Resolves once it is on stable storage. */
type AcceptEvents = (coming: {
	readonly raw: Buffer;
	readonly source: InboundSource;
	readonly mailFrom: null;
	readonly rcptTo: readonly string[];
	readonly workspaceId: string | null;
	readonly uniqueKey?: string;
	readonly turn: ReadingTurn;
}) => Promise<Accepted>;

type IntakeOptions = {
	readonly reader: Knex;
	readonly writer: Writer;
	readonly vault: Vault;
	readonly client: Pick<ProviderClient, 'send'>;
	readonly acceptMessage: AcceptEvents;
	/** Called when stored events are waiting to be read. */
	readonly wake: () => void;
	readonly clock: Pick<Clock, 'now' | 'monotonic'>;
};

type IntakeOutcome = Exclude<ProviderPostEnd, 'unknown'>;

const maxCertificates = 100;
const certificateMs = 24 * 3_600_000;
/** The minimum time between two updates of a smarthost's last event, in milliseconds. */
const noteMs = 60_000;
const maxNoted = 10_000;
/** SparkPost posts up to this many at once; the others post fewer. */
const maxEvents = 10_000;
/** Half of what the store's writer accepts in one transaction. */
const batchSize = 64;
/** How many events of one workspace's smarthosts may wait to be stored or read. Providers post refused events again. */
const maxWaiting = 2 * maxEvents;
/** The minimum time between two queries for the number of unread events, in milliseconds. */
const countMs = 1000;
const maxCountedWorkspaces = 1000;

/** Accepts providers' posts: verifies who posts, then stores each event by itself. The inbound reader reads them. */
export class ProviderIntake {
	readonly #options: IntakeOptions;
	readonly #certificates: LRUCache<string, Promise<string>>;
	readonly #noted = new LRUCache<string, true>({...atMost(maxNoted), ttl: noteMs});
	readonly #batches = new OwnerBatches(batchSize);
	/** Unread events by workspace: the last count, plus the events accepted since. */
	readonly #unread = new LRUCache<string, {count: number; readonly countedAt: number}>(atMost(maxCountedWorkspaces));

	constructor(options: IntakeOptions) {
		this.#options = options;
		this.#certificates = new LRUCache({max: maxCertificates, ttl: certificateMs});
	}

	/** Returns the smarthost of a URL, or `undefined`. Called before a body is read. */
	async find(provider: string, token: string): Promise<Smarthost | undefined> {
		const smarthost = isProviderName(provider)
			? await findSmarthostByToken(this.#options.reader, apiKeyHash(token))
			: undefined;
		return smarthost?.provider === provider ? smarthost : undefined;
	}

	/**
	 * Rejects if the store or a certificate is unavailable. Nothing is acknowledged then, so the provider posts it
	 * again.
	 */
	async take(smarthost: Smarthost, incoming: Incoming): Promise<IntakeOutcome> {
		const {vault, clock} = this.#options;
		if (smarthost.provider === 'ses') {
			return await this.#takeSns(smarthost, parsedJson(incoming.body.toString()));
		}
		const {isFromProvider, events, uniqueBy} = providers[smarthost.provider];
		const secret = smarthost.secret === null ? null : vault.open(smarthost.id, smarthost.secret);
		if (secret === null || !isFromProvider(incoming, secret, clock.now())) {
			return 'forged';
		}
		const body = parsedJson(incoming.body.toString());
		const uniqueKey = uniqueBy && `${smarthost.id} ${uniqueBy(body)}`;
		return await this.#store(smarthost, events(body), uniqueKey);
	}

	async #takeSns(smarthost: Smarthost, body: unknown): Promise<IntakeOutcome> {
		const message = readSns(body);
		const isOtherTopic = smarthost.topic !== null && message?.topic !== smarthost.topic;
		const isRecent = message?.isRecent(this.#options.clock.now());
		if (message === null || isOtherTopic || !isRecent || !(await this.#isSigned(message))) {
			return 'forged';
		}
		if (message.subscribeUrl !== null) {
			await this.#confirm(smarthost, message.topic, message.subscribeUrl);
		}
		return message.type === 'Notification' ? await this.#store(smarthost, providers.ses.events(body)) : 'taken';
	}

	async #isSigned({certificateUrl, isSignedBy}: SnsMessage): Promise<boolean> {
		return isSignedBy(await this.#certificateAt(certificateUrl), this.#options.clock.now());
	}

	/** Caches a certificate for a day. A failed download is repeated. */
	async #certificateAt(url: URL): Promise<string> {
		const cached = this.#certificates.get(url.href);
		const pending = cached ?? this.#fetchCertificate(url);
		this.#certificates.set(url.href, pending);
		try {
			return await pending;
		} catch (error) {
			this.#certificates.delete(url.href);
			throw error;
		}
	}

	async #fetchCertificate(url: URL): Promise<string> {
		const {status, body} = await this.#options.client.send('sns', url);
		if (status !== 200) {
			throw new ProviderHostError(
				`${url.hostname} responded with ${status} to the request for a signing certificate.`,
			);
		}
		return body;
	}

	/** Confirms the subscription to a topic. From then on only posts of this topic are accepted. */
	async #confirm({id}: Smarthost, topic: string, url: URL): Promise<void> {
		const {status} = await this.#options.client.send('sns', url);
		if (status !== 200) {
			throw new ProviderHostError(
				`${url.hostname} responded with ${status} to the confirmation of a subscription.`,
			);
		}
		await this.#options.writer.transaction(trx => updateSmarthost(trx, id, {topic}));
	}

	/** Whether this many more events may wait to be stored and read. */
	async #hasRoom(smarthost: Smarthost, events: number): Promise<boolean> {
		if (smarthost.workspace_id === null) {
			return this.#batches.waiting(smarthost.id) + events <= maxWaiting;
		}
		const unread = await this.#countUnread(smarthost.workspace_id);
		const hasRoom = unread.count + events <= maxWaiting;
		unread.count += hasRoom ? events : 0;
		return hasRoom;
	}

	async #countUnread(workspaceId: string) {
		const {reader, clock} = this.#options;
		const cached = this.#unread.get(workspaceId);
		if (cached && clock.monotonic() - cached.countedAt < countMs) {
			return cached;
		}
		const stored = await countUnreadEvents(reader, workspaceId, maxWaiting);
		const unread = {count: stored + this.#batches.waiting(workspaceId), countedAt: clock.monotonic()};
		this.#unread.set(workspaceId, unread);
		return unread;
	}

	async #areStored(results: readonly Accepted[], texts: readonly Buffer[]): Promise<boolean> {
		const {reader} = this.#options;
		const stored = results.map(
			async ({isNew, id}, i) => isNew || (await hasInbound(reader, id, digestInbound(texts[i] as Buffer))),
		);
		return (await Promise.all(stored)).every(Boolean);
	}

	/** `uniqueKey` identifies a post with one event. Another post with it is refused unless it has the same event. */
	async #store(smarthost: Smarthost, events: readonly Fields[] | null, uniqueKey?: string): Promise<IntakeOutcome> {
		const {id, provider, workspace_id: workspaceId, takes} = smarthost;
		const {acceptMessage, wake, writer, clock} = this.#options;
		const texts = events && toTexts(events.map(event => ({provider, workspace: workspaceId, takes, event})));
		if (texts === null || (uniqueKey !== undefined && texts.length > 1)) {
			return 'unreadable';
		}
		if (!(await this.#hasRoom(smarthost, texts.length))) {
			return 'limited';
		}
		const common = {
			source: 'provider',
			mailFrom: null,
			rcptTo: [],
			workspaceId,
			turn: {precedence: precedence.proven, turn: ownerOf(smarthost)},
			...(uniqueKey !== undefined && {uniqueKey}),
		} as const;
		const results = await Promise.all(
			texts.map(raw => this.#batches.run(ownerOf(smarthost), () => acceptMessage({raw, ...common}))),
		);
		// The provider may repeat an event if it does not know that it was stored.
		if (uniqueKey !== undefined && !(await this.#areStored(results, texts))) {
			return 'forged';
		}
		if (!this.#noted.has(id)) {
			this.#noted.set(id, true);
			// The time is only informative, so if it cannot be written, the next event tries again.
			writer.submit(smarthostNoteWrite, {id, at: storeTime(clock.now())}).catch(() => this.#noted.delete(id));
		}
		if (texts.length > 0) {
			wake();
		}
		return 'taken';
	}
}

/** Returns `null` if there are too many events, or if one is nested too deeply to be serialized. */
function toTexts(events: readonly StoredEvent[]): readonly Buffer[] | null {
	try {
		return events.length > maxEvents ? null : events.map(eventBytes);
	} catch {
		return null;
	}
}
