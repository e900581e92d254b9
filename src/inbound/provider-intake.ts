import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import {parsedJson} from '../kit/exact-json.ts';
import {storeTime} from '../kit/time.ts';
import {apiKeyHash} from '../mail/api-key.ts';
import {isProviderName, type ProviderPostEnd} from '../mail/provider.ts';
import type {InboundSource} from '../mail/report.ts';
import {type ProviderClient, ProviderHostError} from '../net/provider-client.ts';
import type {Fields, Incoming} from '../providers/provider.ts';
import {providers} from '../providers/providers.ts';
import {eventBytes, type StoredEvent} from '../providers/read-event.ts';
import {readSns, type SnsMessage} from '../providers/ses.ts';
import type {Writer} from '../store/engine/writer.ts';
import type {Vault} from '../store/sealed.ts';
import {findSmarthostByToken, lastEventWrite, type Smarthost, updateSmarthost} from '../store/smarthosts.ts';

/** Stores what came in; resolves when it is on stable storage. */
type TakeIn = (coming: {
	readonly raw: Buffer;
	readonly source: InboundSource;
	readonly mailFrom: null;
	readonly rcptTo: readonly string[];
}) => Promise<unknown>;

type IntakeOptions = {
	readonly reader: Knex;
	readonly writer: Writer;
	readonly vault: Vault;
	readonly client: Pick<ProviderClient, 'ask'>;
	readonly takeIn: TakeIn;
	/** Events are stored that wait to be read. */
	readonly wake: () => void;
	readonly clock: Pick<Clock, 'now'>;
};

type TakenEnd = Exclude<ProviderPostEnd, 'unknown'>;

const mostCertificates = 100;
const certificateMs = 24 * 3_600_000;
/** A smarthost's last event is noted at most so often. */
const noteMs = 60_000;
const mostNoted = 10_000;
/** SparkPost posts as many at once, the others fewer. */
const mostEvents = 10_000;

/** Takes what providers post: who posts is proven, then each event is stored by itself. Reading them is the inbound reader's. */
export class ProviderIntake {
	readonly #options: IntakeOptions;
	readonly #certificates: LRUCache<string, Promise<string>>;
	readonly #noted = new LRUCache<string, true>({...atMost(mostNoted), ttl: noteMs});

	constructor(options: IntakeOptions) {
		this.#options = options;
		this.#certificates = new LRUCache({max: mostCertificates, ttl: certificateMs});
	}

	/** The smarthost of a URL; undefined: none has it. Asked before a body is read. */
	async find(provider: string, token: string): Promise<Smarthost | undefined> {
		const smarthost = isProviderName(provider)
			? await findSmarthostByToken(this.#options.reader, apiKeyHash(token))
			: undefined;
		return smarthost?.provider === provider ? smarthost : undefined;
	}

	/** Rejects if the store or a certificate cannot be had: nothing was acknowledged, the provider posts it again. */
	async take(smarthost: Smarthost, incoming: Incoming): Promise<TakenEnd> {
		const {vault, clock} = this.#options;
		if (smarthost.provider === 'ses') {
			return await this.#takeSns(smarthost, parsedJson(incoming.body.toString()));
		}
		const {proves, events} = providers[smarthost.provider];
		const secret = smarthost.secret === null ? null : vault.open(smarthost.id, smarthost.secret);
		if (secret === null || !proves(incoming, secret, clock.now())) {
			return 'forged';
		}
		return await this.#store(smarthost, events(parsedJson(incoming.body.toString())));
	}

	async #takeSns(smarthost: Smarthost, body: unknown): Promise<TakenEnd> {
		const message = readSns(body);
		const isOther = smarthost.topic !== null && message?.topic !== smarthost.topic;
		if (message === null || isOther || !(await this.#isSigned(message))) {
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

	/** Kept for a day; one that could not be had is asked for again. */
	async #certificateAt(url: URL): Promise<string> {
		const known = this.#certificates.get(url.href);
		const asked = known ?? this.#fetchCertificate(url);
		this.#certificates.set(url.href, asked);
		try {
			return await asked;
		} catch (error) {
			this.#certificates.delete(url.href);
			throw error;
		}
	}

	async #fetchCertificate(url: URL): Promise<string> {
		const {status, body} = await this.#options.client.ask('sns', url);
		if (status !== 200) {
			throw new ProviderHostError(`${url.hostname} answered ${status} for the certificate of a signature.`);
		}
		return body;
	}

	/** From now on only this topic's posts are taken. */
	async #confirm({id}: Smarthost, topic: string, url: URL): Promise<void> {
		const {status} = await this.#options.client.ask('sns', url);
		if (status !== 200) {
			throw new ProviderHostError(`${url.hostname} answered ${status} to the confirmation of a subscription.`);
		}
		await this.#options.writer.transaction(trx => updateSmarthost(trx, id, {topic}));
	}

	async #store(
		{id, provider, workspace_id: workspace, takes}: Smarthost,
		events: readonly Fields[] | null,
	): Promise<TakenEnd> {
		const {takeIn, wake, writer, clock} = this.#options;
		const texts = events && textsOf(events.map(event => ({provider, workspace, takes, event})));
		if (texts === null) {
			return 'unreadable';
		}
		await Promise.all(texts.map(raw => takeIn({raw, source: 'provider', mailFrom: null, rcptTo: []})));
		if (!this.#noted.has(id)) {
			this.#noted.set(id, true);
			// It says when, and nothing follows: what cannot be written is noted with the next event.
			writer.submit(lastEventWrite, {id, at: storeTime(clock.now())}).catch(() => this.#noted.delete(id));
		}
		if (texts.length > 0) {
			wake();
		}
		return 'taken';
	}
}

/** Null: there are more than a provider posts at once, or one is nested deeper than it can be written. */
function textsOf(events: readonly StoredEvent[]): readonly Buffer[] | null {
	try {
		return events.length > mostEvents ? null : events.map(eventBytes);
	} catch {
		return null;
	}
}
