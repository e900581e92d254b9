import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import type {Clock} from '../mail/clock.ts';
import {type Attachment, erasedAddress, trackingOf} from '../mail/message.ts';
import {storeTime} from '../mail/time.ts';
import type {MakeJob} from '../queue/makers.ts';
import {type DomainSigning, findDkimKeys, findDomainSigning} from '../store/dkim-keys.ts';
import type {Claimed} from '../store/queue/claimed.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {MakeOptions} from '../threads/make.ts';
import type {SigningKeyText} from '../threads/maker.ts';

export type Sending = {
	readonly attachments: readonly Attachment[];
	/** The domain's active keys: their ids, joined by commas. */
	readonly signing: string;
	readonly returnPathDomain: string;
};

/** What a maker is told of a claimed copy. The locale is the send's, then the workspace's, then `en`; so the zone. */
export function makeJob(copy: Claimed, {attachments, signing, returnPathDomain}: Sending): MakeJob {
	return {
		recipientId: copy.id,
		messageId: copy.message_id,
		workspaceId: copy.workspace_id,
		workspaceName: copy.workspace_name,
		address: copy.address,
		role: copy.role,
		acceptedAt: Date.parse(copy.created_at),
		from: copy.from_address,
		fromName: copy.sender_name,
		to: copy.to_address,
		cc: ccOf(copy),
		replyTo: copy.reply_to === erasedAddress ? null : copy.reply_to,
		templateId: copy.template_id,
		versionId: copy.version_id,
		locale: copy.locale ?? copy.workspace_locale ?? 'en',
		workspaceLocale: copy.workspace_locale,
		timezone: copy.timezone ?? copy.workspace_timezone ?? 'UTC',
		data: copy.data,
		topicId: copy.topic_id,
		topicCode: copy.topic_code,
		tracking: trackingOf(copy),
		attachments,
		signing,
		returnPathDomain,
	};
}

/** Those that the Cc header names: nobody can write to whoever was erased meanwhile. */
function ccOf({cc}: Claimed): string[] {
	const addresses: string[] = cc === null ? [] : JSON.parse(cc);
	return addresses.filter(address => address !== erasedAddress);
}

const cached = 1000;
/** A key that becomes active by time alone is noticed within this, milliseconds. */
const freshMs = 60_000;

/** Which keys sign a domain's mail. Cached: asked for every copy. */
export function createSigning(store: Store, vault: Vault, clock: Clock) {
	const domains = new LRUCache<string, Promise<DomainSigning>>({max: cached, ttl: freshMs});
	return {
		async of(domainId: string): Promise<DomainSigning> {
			let found = domains.get(domainId);
			if (!found) {
				found = findDomainSigning(store.reader, domainId, storeTime(clock.now()));
				domains.set(domainId, found);
				found.catch(() => domains.delete(domainId));
			}
			return await found;
		},
		/** The keys themselves, for a maker. */
		async keys(ids: readonly string[]): Promise<SigningKeyText[]> {
			const rows = await findDkimKeys(store.reader, ids);
			return rows.map(({id, domain, selector, algorithm, secret}) => ({
				domain,
				selector,
				algorithm,
				privateKeyPem: vault.open(id, secret),
			}));
		},
		forget: () => domains.clear(),
	};
}

export type Signing = ReturnType<typeof createSigning>;

/** How mail says where complaints and opt-outs may come back, as the settings say. */
export function feedbackOf(
	settings: Pick<Settings, 'inboundListen' | 'bounceMailbox' | 'senderId' | 'cfbl' | 'feedbackAddress'>,
): Pick<MakeOptions, 'listening' | 'senderId' | 'cfbl'> {
	const {inboundListen, bounceMailbox, senderId, cfbl, feedbackAddress} = settings;
	return {
		listening: inboundListen !== null || bounceMailbox !== null,
		senderId,
		cfbl: cfbl ? {own: feedbackAddress, listening: inboundListen !== null} : null,
	};
}
