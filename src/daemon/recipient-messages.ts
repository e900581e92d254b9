import {existsSync} from 'node:fs';
import {join} from 'node:path';
import {LRUCache} from 'lru-cache';
import {inWorker} from '../compose/render/in-worker.ts';
import {servesHttps} from '../config/derive.ts';
import type {Settings} from '../config/settings.ts';
import {capturedFolder, capturedName} from '../deliver/local-delivery.ts';
import type {Clock} from '../kit/clock.ts';
import {threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {readRegular} from '../kit/regular-file.ts';
import {storeTime} from '../kit/time.ts';
import {type DomainSigning, findDkimKeys, findDomainSigning} from '../resources/domains/store.ts';
import {listVariants} from '../resources/templates/store.ts';
import {listAttachments} from '../store/messages.ts';
import {readRecipient} from '../store/queue/claims.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {MakeOptions} from './threads/message-composer.ts';
import type {SigningKeyText} from './threads/renderer.ts';
import type {RerenderInput, RerenderResult} from './threads/rerender.ts';

type MailsOptions = {
	readonly settings: Pick<Settings, 'dataDir' | 'tokenLifetime' | 'returnPathDomain' | 'acme' | 'httpsListen'> &
		Parameters<typeof toFeedback>[0];
	readonly store: Store;
	readonly vault: Vault;
	readonly secrets: MasterKeys;
	readonly clock: Clock;
	/** The base URL of links in messages. */
	readonly publicUrl: () => string;
};

/** None of our messages is larger, including attachments. */
const maxCaptured = 128 * 1024 ** 2;
const rerenderThread = entryPoint('daemon/threads/rerender');
const rerenderLimitMs = 2000;

/** The messages of recipients, for people to view. */
export class RecipientMessages {
	readonly #options: MailsOptions;

	constructor(options: MailsOptions) {
		this.#options = options;
	}

	/** Returns the captured message of a recipient, or `null`. */
	async captured(recipientId: string): Promise<Uint8Array | null> {
		const file = capturedFile(this.#options.settings.dataDir, recipientId);
		return file === null ? null : await readRegular(file, maxCaptured, 'refuse');
	}

	/**
	 * Returns the recipient's message as it would be created now. Its signatures and link tokens differ from those
	 * sent. Messages of test keys are not signed.
	 */
	async rerender(workspaceId: string, recipientId: string): Promise<RerenderResult | 'no_sender'> {
		const {settings, store, vault, secrets, clock, publicUrl} = this.#options;
		const recipient = await readRecipient(store.reader, workspaceId, recipientId);
		if (!recipient?.domain_id) {
			return 'no_sender';
		}
		const signing = new Signing(store, vault, clock, settings);
		const {keyIds, returnPathDomain, linkHost} = await signing.of(recipient.domain_id);
		const variants = await listVariants(store.reader, recipient.version_id);
		const input: RerenderInput = {
			options: {tokenLifetimeMs: settings.tokenLifetime, ...toFeedback(settings)},
			keys: secrets,
			publicUrl: publicUrl(),
			now: clock.now(),
			job: {
				recipient,
				variables: null,
				attachments: recipient.attachments > 0 ? await listAttachments(store.reader, recipient.message_id) : [],
				signing: '',
				returnPathDomain: returnPathDomain ?? settings.returnPathDomain,
				linkHost,
			},
			variants: variants.map((variant, position) => ({...variant, id: `${recipient.version_id}/${position}`})),
			// A test key must not get signed mail: it could be sent from elsewhere.
			signing: recipient.mode === 'live' ? await signing.keys(keyIds) : [],
		};
		const outcome = await inWorker<RerenderResult>(rerenderThread, input, {
			timeoutMs: rerenderLimitMs,
			limits: threadLimits.renderer,
		});
		return outcome.ok
			? outcome.result
			: {ok: false, message: `rendering takes too ${outcome.spent === 'time' ? 'long' : 'much memory'}`};
	}
}

/** Returns the file with a recipient's captured message, or `null`. */
export function capturedFile(dataDir: string, recipientId: string): string | null {
	const file = join(capturedFolder(dataDir), capturedName(recipientId));
	return existsSync(file) ? file : null;
}

const maxCachedDomains = 1000;
/** A key that becomes active by time alone is noticed within this time, in milliseconds. */
const freshMs = 60_000;

/** The keys that sign a domain's mail, cached because every recipient needs them. */
export class Signing {
	readonly #store: Store;
	readonly #vault: Vault;
	readonly #clock: Clock;
	readonly #needsCertificate: boolean;
	readonly #domains = new LRUCache<string, Promise<DomainSigning>>({max: maxCachedDomains, ttl: freshMs});

	constructor(store: Store, vault: Vault, clock: Clock, settings: Pick<Settings, 'acme' | 'httpsListen'>) {
		this.#needsCertificate = servesHttps(settings);
		this.#store = store;
		this.#vault = vault;
		this.#clock = clock;
	}

	async of(domainId: string): Promise<DomainSigning> {
		let signing = this.#domains.get(domainId);
		if (!signing) {
			signing = findDomainSigning(
				this.#store.reader,
				domainId,
				storeTime(this.#clock.now()),
				this.#needsCertificate,
			);
			this.#domains.set(domainId, signing);
			signing.catch(() => this.#domains.delete(domainId));
		}
		return await signing;
	}

	/** Returns the keys themselves, for a renderer. */
	async keys(ids: readonly string[]): Promise<SigningKeyText[]> {
		const rows = await findDkimKeys(this.#store.reader, ids);
		return rows.map(({id, domain, selector, algorithm, secret}) => ({
			domain,
			selector,
			algorithm,
			privateKeyPem: this.#vault.open(id, secret),
		}));
	}

	forget(): void {
		this.#domains.clear();
	}
}

/** Returns the settings for where complaints and opt-outs may be sent. */
export function toFeedback(
	settings: Pick<Settings, 'inboundListen' | 'bounceMailbox' | 'senderId' | 'cfbl' | 'feedbackAddress'>,
): Pick<MakeOptions, 'isListening' | 'canReceiveReplies' | 'senderId' | 'cfbl'> {
	const {inboundListen, bounceMailbox, senderId, cfbl, feedbackAddress} = settings;
	return {
		isListening: inboundListen !== null || bounceMailbox !== null,
		canReceiveReplies: inboundListen !== null,
		senderId,
		cfbl: cfbl ? {own: feedbackAddress, isListening: inboundListen !== null} : null,
	};
}
