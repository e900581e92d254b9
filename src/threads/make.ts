import {composeSubmitted, createCompose, type Stamp} from '../compose/compose.ts';
import type {SigningKey} from '../compose/dkim.ts';
import {type Letter, needsSmtputf8} from '../compose/header-field.ts';
import type {Clock} from '../kit/clock.ts';
import {joined} from '../kit/text.ts';
import {type Links, messageIdOf} from '../links/links.ts';
import {rewrite} from '../links/rewrite.ts';
import type {Claims} from '../links/tokens.ts';
import {domainOf} from '../mail/address.ts';
import {erasedAddress, hiddenValue, readExtras, startOf, submittedSource, trackingOf} from '../mail/message.ts';
import {isUnder} from '../net/host-name.ts';
import type {MakeJob, MakeResult} from '../queue/renderers.ts';
import {chooseVariant, mailLocale} from '../render/locale.ts';
import type {Renderer, RenderVariant} from '../render/render.ts';
import {decodeWords} from '../report/decode.ts';

export type MakeOptions = {
	readonly links: Links;
	readonly renderer: Renderer;
	/** How long an unsubscribe link is valid, in milliseconds. */
	readonly tokenLifetimeMs: number;
	/** Whether mail to the return-path domain is read. Unsubscribing by mail needs that. */
	readonly listening: boolean;
	/** Whether replies to `reply+…@` the return-path domain are accepted. */
	readonly replies: boolean;
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

type Make = (job: MakeJob, ingredients: Ingredients, renderMs?: number) => MakeResult;

/**
 * Renders, composes and signs the message for one recipient. The locale is the send's, else the workspace's, else `en`;
 * the time zone is found likewise. Everything but the signature's time is the same in every attempt.
 */
export function createMake(options: MakeOptions): Make {
	const {links, renderer, tokenLifetimeMs, listening, replies, senderId, cfbl, clock} = options;
	const compose = createCompose();
	return (job, {variants, signing}, renderMs) => {
		const {recipient, attachments, returnPathDomain} = job;
		const pages = links.under(job.linkHost);
		const {id, address, message_id: messageId, from_address: from} = recipient;
		const date = startOf(recipient);
		const locale = recipient.locale ?? recipient.workspace_locale ?? 'en';
		const claims: Claims = {
			workspaceId: recipient.workspace_id,
			messageId,
			topicId: recipient.topic_id,
			role: recipient.role,
			address,
			expiresAt: date + tokenLifetimeMs,
		};
		const unsubscribeUrl = pages.unsubscribeUrl(claims);
		const ref = links.ref(id, address);
		const stamp: Stamp = {
			listUnsubscribe: {
				url: unsubscribeUrl,
				mailto: listening ? `${links.unsubscribeLocal(id, address)}@${returnPathDomain}` : null,
			},
			ref,
			feedbackId: feedbackIdOf(recipient, senderId),
			// RFC 9477 §3.1.4: receivers ignore the field unless a signature covers it.
			cfblAddress: cfbl === null || signing.length === 0 ? null : cfblAddressOf(from, returnPathDomain, cfbl),
		};
		const once = {
			messageIdHeader: messageIdOf(links, messageId, from),
			date,
		};
		const envelopeFrom = `${links.returnPathLocal(id, address)}@${returnPathDomain}`;

		const source = submittedSource(attachments);
		if (source !== null) {
			const submitted = {...stamp, ...once, hasTopic: recipient.topic_code !== null};
			const {mail, subject} = composeSubmitted(Buffer.from(source), submitted, signing, clock.now());
			const made = {
				mail,
				subject: decodeWords(subject),
				envelopeFrom,
				ref,
				firstLink: null,
				links: 0,
				smtputf8: false,
			};
			return {ok: true, made};
		}

		const variant = chooseVariant(variants, locale, recipient.workspace_locale);
		if (!variant) {
			return {ok: false, unmade: {reason: 'template_gone', message: 'The template version has no variant.'}};
		}
		const input = {
			data: recipient.data ?? '{}',
			locale,
			timezone: recipient.timezone ?? recipient.workspace_timezone ?? 'UTC',
			recipient: {email: address},
			unsubscribe_url: unsubscribeUrl,
			preferences_url: pages.preferencesUrl(unsubscribeUrl),
			workspace: {name: recipient.workspace_name},
			message: {id: messageId, locale: mailLocale(variant.locale, locale)},
		};
		const rendered = renderer.renderPieces(
			variant,
			job.variables === null ? input : {...input, data: job.variables},
			renderMs,
		);
		if (!rendered.ok) {
			return {ok: false, unmade: {reason: rendered.reason, message: rendered.message}};
		}

		// The text part keeps its original links, because people read them.
		const tracking = trackingOf(recipient);
		const {opens} = tracking;
		// A click event stores its URL, which may contain a sensitive variable.
		const clicks = tracking.clicks && job.variables === null;
		const {
			html,
			firstLink,
			links: tracked,
		} = opens || clicks
			? rewrite(joined(rendered.html), {
					openUrl: opens ? pages.openUrl(claims) : null,
					clickUrl: clicks ? url => pages.clickUrl(claims, url) : null,
				})
			: {html: rendered.html, firstLink: null, links: 0};
		const extras = readExtras(recipient.extras);
		const letter: Letter = {
			...stamp,
			...once,
			from: {address: from, name: recipient.sender_name},
			to: recipient.to_address,
			cc: ccOf(recipient),
			replyTo:
				extras.replyTracking && replies
					? `${links.replyLocal(id, address)}@${returnPathDomain}`
					: recipient.reply_to === erasedAddress
						? null
						: recipient.reply_to,
			subject: rendered.subject,
			html,
			text: rendered.text,
			attachments,
			extras,
		};
		const mail = compose(letter, signing, clock.now());
		const subject =
			job.variables === null ? letter.subject : keptSubject(renderer.renderPieces(variant, input, renderMs));
		const made = {mail, subject, envelopeFrom, ref, firstLink, links: tracked};
		return {ok: true, made: {...made, smtputf8: needsSmtputf8(letter)}};
	};
}

/** Returns the subject without the values of sensitive variables. */
function keptSubject(rendered: ReturnType<Renderer['renderPieces']>): string {
	return rendered.ok ? rendered.subject : hiddenValue;
}

/** The stream name of messages without a topic. */
const plainStream = 'transactional';

/**
 * Returns the value of Feedback-ID, by which Gmail groups complaints: template, workspace, topic, and the sender at the
 * right. Nothing in it identifies a recipient (R3.20).
 */
export function feedbackIdOf(
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
	readonly listening: boolean;
};

/**
 * Returns the CFBL-Address for a recipient's message: the first one at or below the sender's domain, so that the
 * sender's signature covers it (RFC 9477 §3.1), or `null` if there is none.
 */
export function cfblAddressOf(
	from: string,
	returnPathDomain: string,
	{own, listening}: FeedbackAddresses,
): string | null {
	const addresses = listening ? [own, `fbl@${returnPathDomain}`] : [own];
	return addresses.find(address => isUnder(domainOf(address), domainOf(from))) ?? null;
}

/** Returns the addresses for the Cc header, without erased ones. */
function ccOf({cc}: MakeJob['recipient']): string[] {
	const addresses: string[] = cc === null ? [] : JSON.parse(cc);
	return addresses.filter(address => address !== erasedAddress);
}
