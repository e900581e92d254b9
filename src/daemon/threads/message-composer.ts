import {composeSubmitted, createCompose, type Stamp} from '../../compose/compose.ts';
import type {SigningKey} from '../../compose/dkim.ts';
import {needsSmtputf8, type RenderedMessage} from '../../compose/header-field.ts';
import {type Links, type PageLinks, toMessageId} from '../../compose/links/links.ts';
import {rewrite} from '../../compose/links/rewrite.ts';
import type {Claims} from '../../compose/links/tokens.ts';
import {chooseVariant, mailLocale} from '../../compose/render/locale.ts';
import type {Renderer, RenderVariant} from '../../compose/render/render.ts';
import type {Clock} from '../../kit/clock.ts';
import {joined} from '../../kit/text.ts';
import {domainOf} from '../../mail/address.ts';
import {decodeWords} from '../../mail/decode.ts';
import {erasedAddress, hiddenValue, readExtras, startOf, submittedSource, toTracking} from '../../mail/message.ts';
import {isUnder} from '../../net/host-name.ts';
import type {MakeJob, MakeResult} from '../../queue/renderers.ts';

export type MakeOptions = {
	readonly links: Links;
	readonly renderer: Renderer;
	/** How long an unsubscribe link is valid, in milliseconds. */
	readonly tokenLifetimeMs: number;
	/** Whether mail to the return-path domain is read, which unsubscribing by mail requires. */
	readonly isListening: boolean;
	/** Whether replies to `reply+…@` the return-path domain are accepted. */
	readonly canReceiveReplies: boolean;
	/** The installation's sender id in Feedback-ID. */
	readonly senderId: string;
	/** `null` if messages do not request feedback reports. */
	readonly cfbl: FeedbackAddresses | null;
	readonly clock: Clock;
};

/** A compiled variant of a template version. */
export type Variant = RenderVariant & {readonly locale: string | null};

/** What a renderer looks up by name before it processes a job. */
export type Ingredients = {readonly variants: readonly Variant[]; readonly signing: readonly SigningKey[]};

/** What every message has, whether it is rendered or submitted. */
type Basis = {
	readonly pages: PageLinks;
	readonly claims: Claims;
	readonly stamp: Stamp & Pick<RenderedMessage, 'messageIdHeader' | 'date'>;
	readonly envelopeFrom: string;
};

/**
 * Renders, composes and signs the message for one recipient. The locale is the send's, else the workspace's, else `en`;
 * the time zone is chosen likewise. Everything but the signature's time is the same in every attempt.
 */
export class MessageComposer {
	readonly #options: MakeOptions;
	readonly #compose = createCompose();

	constructor(options: MakeOptions) {
		this.#options = options;
	}

	make(job: MakeJob, ingredients: Ingredients, renderMs?: number): MakeResult {
		const basis = this.#basis(job, ingredients.signing);
		const source = submittedSource(job.attachments);
		return source === null
			? this.#fromTemplate(job, basis, ingredients, renderMs)
			: this.#fromSource(source, job, basis, ingredients.signing);
	}

	#basis({recipient, returnPathDomain, linkHost}: MakeJob, signing: Ingredients['signing']): Basis {
		const {links, tokenLifetimeMs, isListening, senderId, cfbl} = this.#options;
		const {id, address, message_id: messageId, from_address: from} = recipient;
		const pages = links.under(linkHost);
		const date = startOf(recipient);
		const claims: Claims = {
			workspaceId: recipient.workspace_id,
			messageId,
			topicId: recipient.topic_id,
			role: recipient.role,
			address,
			expiresAt: date + tokenLifetimeMs,
		};
		const stamp = {
			listUnsubscribe: {
				url: pages.unsubscribeUrl(claims),
				mailto: isListening ? `${links.unsubscribeLocal(id, address)}@${returnPathDomain}` : null,
			},
			ref: links.ref(id, address),
			feedbackId: toFeedbackId(recipient, senderId),
			// RFC 9477 §3.1.4: receivers ignore the field unless a signature covers it.
			cfblAddress: cfbl === null || signing.length === 0 ? null : toCfblAddress(from, returnPathDomain, cfbl),
			messageIdHeader: toMessageId(links, messageId, from),
			date,
		};
		return {pages, claims, stamp, envelopeFrom: `${links.returnPathLocal(id, address)}@${returnPathDomain}`};
	}

	/** Adds our fields to a submitted message. */
	#fromSource(
		source: Uint8Array,
		{recipient}: MakeJob,
		{stamp, envelopeFrom}: Basis,
		signing: Ingredients['signing'],
	): MakeResult {
		const submitted = {...stamp, hasTopic: recipient.topic_code !== null};
		const now = this.#options.clock.now();
		const {mail, subject} = composeSubmitted(Buffer.from(source), submitted, signing, now);
		const message = {
			mail,
			subject: decodeWords(subject),
			envelopeFrom,
			ref: stamp.ref,
			firstLink: null,
			links: 0,
			smtputf8: false,
		};
		return {ok: true, message};
	}

	#fromTemplate(
		job: MakeJob,
		basis: Basis,
		{variants, signing}: Ingredients,
		renderMs: number | undefined,
	): MakeResult {
		const {renderer, clock} = this.#options;
		const {recipient, variables} = job;
		const locale = recipient.locale ?? recipient.workspace_locale ?? 'en';
		const variant = chooseVariant(variants, locale, recipient.workspace_locale);
		if (!variant) {
			return {ok: false, unmade: {reason: 'template_gone', message: 'The template version has no variant.'}};
		}
		const unsubscribeUrl = basis.stamp.listUnsubscribe.url;
		const input = {
			data: recipient.data ?? '{}',
			locale,
			timezone: recipient.timezone ?? recipient.workspace_timezone ?? 'UTC',
			recipient: {email: recipient.address},
			unsubscribe_url: unsubscribeUrl,
			preferences_url: basis.pages.preferencesUrl(unsubscribeUrl),
			workspace: {name: recipient.workspace_name},
			message: {id: recipient.message_id, locale: mailLocale(variant.locale, locale)},
		};
		const rendered = renderer.renderPieces(
			variant,
			variables === null ? input : {...input, data: variables},
			renderMs,
		);
		if (!rendered.ok) {
			return {ok: false, unmade: {reason: rendered.reason, message: rendered.message}};
		}
		const {html, firstLink, links} = track(rendered.html, job, basis);
		const message = this.#toMessage(job, basis, {subject: rendered.subject, html, text: rendered.text});
		const mail = this.#compose(message, signing, clock.now());
		const subject =
			variables === null ? message.subject : toStoredSubject(renderer.renderPieces(variant, input, renderMs));
		const {envelopeFrom, stamp} = basis;
		const smtputf8 = needsSmtputf8(message);
		return {ok: true, message: {mail, subject, envelopeFrom, ref: stamp.ref, firstLink, links, smtputf8}};
	}

	#toMessage(
		{recipient, attachments, returnPathDomain}: MakeJob,
		{stamp}: Basis,
		content: Pick<RenderedMessage, 'subject' | 'html' | 'text'>,
	): RenderedMessage {
		const {links, canReceiveReplies} = this.#options;
		const {id, address, reply_to: requested} = recipient;
		const extras = readExtras(recipient.extras);
		const replyTo = requested === erasedAddress ? null : requested;
		const isTracked = extras.replyTracking && canReceiveReplies;
		return {
			...stamp,
			from: {address: recipient.from_address, name: recipient.sender_name},
			to: recipient.to_address,
			cc: toCc(recipient),
			replyTo: isTracked ? `${links.replyLocal(id, address)}@${returnPathDomain}` : replyTo,
			...content,
			attachments,
			extras,
		};
	}
}

/** Adds the open pixel and the tracked links. The text part keeps its original links, because people read them. */
function track(
	html: Parameters<typeof joined>[0],
	{recipient, variables}: MakeJob,
	{pages, claims}: Basis,
): {readonly html: RenderedMessage['html']; readonly firstLink: string | null; readonly links: number} {
	const tracking = toTracking(recipient);
	const {opens} = tracking;
	// A click event stores its URL, which may contain a sensitive variable.
	const clicks = tracking.clicks && variables === null;
	return opens || clicks
		? rewrite(joined(html), {
				openUrl: opens ? pages.openUrl(claims) : null,
				clickUrl: clicks ? url => pages.clickUrl(claims, url) : null,
			})
		: {html, firstLink: null, links: 0};
}

/** Returns the subject without the values of sensitive variables. */
function toStoredSubject(rendered: ReturnType<Renderer['renderPieces']>): string {
	return rendered.ok ? rendered.subject : hiddenValue;
}

/** The stream name of messages without a topic. */
const plainStream = 'transactional';

/**
 * Returns the value of Feedback-ID, by which Gmail groups complaints: template, workspace, topic, and the sender at the
 * right. Nothing in it identifies a recipient (R3.20).
 */
export function toFeedbackId(
	{template_id: template, workspace_id: workspace, topic_code: topic}: MakeJob['recipient'],
	senderId: string,
): string {
	return [template, workspace, topic ?? plainStream, senderId].join(':');
}

/** The addresses to which feedback reports may be sent. */
export type FeedbackAddresses = {
	/** The setting MAILCTL_FEEDBACK_ADDRESS. */
	readonly own: string;
	/** Whether `fbl@` at each return-path domain accepts reports. */
	readonly isListening: boolean;
};

/**
 * Returns the CFBL-Address for a recipient's message: the first one at or below the sender's domain, so that the
 * sender's signature covers it (RFC 9477 §3.1), or `null` if there is none.
 */
export function toCfblAddress(
	from: string,
	returnPathDomain: string,
	{own, isListening}: FeedbackAddresses,
): string | null {
	const addresses = isListening ? [own, `fbl@${returnPathDomain}`] : [own];
	return addresses.find(address => isUnder(domainOf(address), domainOf(from))) ?? null;
}

/** Returns the addresses for the Cc header, without erased ones. */
function toCc({cc}: MakeJob['recipient']): string[] {
	const addresses: string[] = cc === null ? [] : JSON.parse(cc);
	return addresses.filter(address => address !== erasedAddress);
}
