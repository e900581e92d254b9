import {LRUCache} from 'lru-cache';
import type {Settings} from '../config/settings.ts';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type Attachment, erasedAddress, trackingOf} from '../mail/message.ts';
import type {MakeJob} from '../queue/renderers.ts';
import {type DomainSigning, findDkimKeys, findDomainSigning} from '../store/domains.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import type {MakeOptions} from '../threads/make.ts';
import type {SigningKeyText} from '../threads/renderer.ts';

export type Sending = {
	readonly attachments: readonly Attachment[];
	/** The domain's active keys: their ids, joined by commas. */
	readonly signing: string;
	readonly returnPathDomain: string;
};

/** What a maker is told of a claimed copy. The locale is the send's, then the workspace's, then `en`; so the zone. */
export function makeJob(recipient: Claimed, {attachments, signing, returnPathDomain}: Sending): MakeJob {
	return {
		recipientId: recipient.id,
		messageId: recipient.message_id,
		workspaceId: recipient.workspace_id,
		workspaceName: recipient.workspace_name,
		address: recipient.address,
		role: recipient.role,
		acceptedAt: Date.parse(recipient.created_at),
		from: recipient.from_address,
		fromName: recipient.sender_name,
		to: recipient.to_address,
		cc: ccOf(recipient),
		replyTo: recipient.reply_to === erasedAddress ? null : recipient.reply_to,
		templateId: recipient.template_id,
		versionId: recipient.version_id,
		locale: recipient.locale ?? recipient.workspace_locale ?? 'en',
		workspaceLocale: recipient.workspace_locale,
		timezone: recipient.timezone ?? recipient.workspace_timezone ?? 'UTC',
		data: recipient.data,
		topicId: recipient.topic_id,
		topicCode: recipient.topic_code,
		tracking: trackingOf(recipient),
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
