import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {
	hasEffect,
	type OptOutAction,
	readStatus,
	type SubscriptionStatus,
	type Unsubscription,
} from '../outcome/unsubscribe.ts';
import {type Icon, noticePage, type Page} from './branded-page.ts';
import type {Form} from './form.ts';
import {filled, type Html, html, nameMarkup, plainName} from './html.ts';
import {addressMarkup, button, type LinkPage, postForm, section, type Visit} from './linked.ts';
import type {Texts} from './texts/wording.ts';

/** Octets; neither the hosted form nor a one-click request is longer. */
const formLimit = 8 * 1024;

export type UnsubscribeOptions = {
	readonly reader: Knex;
	/** Resolves when the change is on stable storage. */
	readonly unsubscribe: (item: Unsubscription) => Promise<SubscriptionStatus>;
	readonly clock: Clock;
};

/** The hosted unsubscribe page, and the one-click action of RFC 8058. */
export const unsubscribePages = ({reader, unsubscribe, clock}: UnsubscribeOptions): LinkPage => ({
	path: '/unsubscribe',
	formLimit,
	show: {
		summary: 'Show the unsubscribe page',
		description: 'The page that the unsubscribe link in a message opens. Changes nothing.',
		meaning: 'A page with the available choices, with the branding of the workspace, in the recipient’s language.',
	},
	act: {
		summary: 'Unsubscribe with one click',
		description: [
			'The one-click action of RFC 8058, submitted by mail clients and by the page itself. The token is in the query string or in the form.',
			'Opts the recipient out of the topic of the message, or of everything if the message has no topic.',
			'Unknown fields and an empty body are ignored.',
		].join(' '),
		meaning: 'A page with the current choice. Repeating the request changes nothing.',
		fields: {
			action: Type.Optional(
				Type.Enum(['topic', 'all', 'undo'], {
					description:
						'`topic` opts out of the topic of the message (the default), `all` opts out of everything, `undo` reverts what this page did.',
				}),
			),
			'List-Unsubscribe': Type.Optional(Type.String({description: '`One-Click`, as mail clients send it.'})),
		},
		example: {'List-Unsubscribe': 'One-Click'},
	},
	async respond(visit, form) {
		const {linked, texts, brand} = visit;
		const action = form && toAction(form);
		if (action === undefined) {
			return noticePage('unclear', 400, texts, brand);
		}
		let status = await readStatus(reader, linked);
		// Anyone with the link can post to it repeatedly, so requests that change nothing do not reach the writer.
		if (form && action && hasEffect(status, action)) {
			const via = form.action === null ? 'one-click' : 'page';
			status = await unsubscribe({...linked, action, via, at: storeTime(clock.now())});
		}
		return unsubscribePage({...visit, action, status});
	},
});

/** Returns `undefined` if the action does not exist. */
function toAction({action}: Form): OptOutAction | undefined {
	if (action === null) {
		return 'topic';
	}
	return action === 'topic' || action === 'all' || action === 'undo' ? action : undefined;
}

type Subject = Visit & {
	/** What the recipient or their mail client has just requested; `null` if the page is only viewed. */
	readonly action: OptOutAction | null;
	/** The status after that request. */
	readonly status: SubscriptionStatus;
};

/** Returns the page of a valid link: the available choices, or what was changed and how to undo it. */
function unsubscribePage(subject: Subject): Page {
	const {texts, brand, status, action} = subject;
	const view = toView(subject);
	return {
		status: 200,
		texts,
		brand,
		icon: view.icon,
		title: view.title,
		content: html`<p>${view.text}</p>
${status.isTest && action !== null ? html`<p class="soft">${texts.testMessage}</p>` : null}
${view.buttons && postForm(subject.token, view.buttons)}
<p class="soft"><a href="preferences?token=${subject.token}">${texts.preferencesLink}</a></p>`,
	};
}

type View = {
	readonly icon: Icon;
	readonly title: string | Html;
	readonly text: Html;
	readonly buttons: Html | null;
};

function toView(subject: Subject): View {
	const {status, action} = subject;
	// The links of a test message change nothing, so its page shows what they would do.
	const isOut = status.isTest && (action === 'topic' || action === 'all');
	if (status.all !== null || (isOut && (action === 'all' || status.topic === null))) {
		return optedOutView(subject, status.all !== 'other');
	}
	if (status.topic !== null && (status.topic.block !== null || isOut)) {
		return topicOptedOutView(subject, status.topic);
	}
	return action === 'undo' ? undoneView(subject) : confirmView(subject);
}

/** Fills the address, brand and topic into a sentence. */
function fillIn({brand, linked: {address}, status: {topic}}: Subject, text: string): Html {
	const name = nameMarkup(topic?.name ?? '');
	return filled(text, {address: addressMarkup(address), brand: nameMarkup(brand.name), topic: name});
}

function confirmView(subject: Subject): View {
	const {texts, brand, status} = subject;
	const {topic} = status;
	if (topic === null) {
		return {
			icon: 'letter',
			title: filled(texts.confirmAll, {brand: plainName(brand.name)}),
			text: html`${fillIn(subject, texts.confirmAllText)} ${texts.allMeans}`,
			buttons: section(button('main', 'all', texts.unsubscribe)),
		};
	}
	const {isRequired, description} = topic;
	const about = isRequired && description ? html`${nameMarkup(description)}</p>\n<p>` : null;
	return {
		icon: 'letter',
		title: filled(isRequired ? texts.required : texts.confirmTopic, {topic: plainName(topic.name)}),
		text: html`${about}${fillIn(subject, isRequired ? texts.requiredText : texts.confirmTopicText)}`,
		buttons: section(
			html`${button('main', 'topic', isRequired ? texts.stopOthers : texts.unsubscribeTopic)}${everything(texts)}`,
		),
	};
}

function optedOutView(subject: Subject, isFromPage: boolean): View {
	const {texts, action, status} = subject;
	const title = action === null || action === 'undo' ? texts.already : texts.done;
	return {
		icon: 'done',
		title: isFromPage ? title : texts.blocked,
		text: fillIn(subject, texts.allIsOff),
		buttons: status.all === 'page' ? undo(texts) : null,
	};
}

function topicOptedOutView(subject: Subject, {block, isRequired}: NonNullable<SubscriptionStatus['topic']>): View {
	const {texts, action} = subject;
	return {
		icon: 'done',
		title: action === null || action === 'undo' ? texts.already : texts.done,
		text: fillIn(subject, isRequired ? texts.othersAreOff : texts.topicIsOff),
		buttons: html`${block === 'page' ? undo(texts) : null}${section(everything(texts))}`,
	};
}

function undoneView(subject: Subject): View {
	const {texts, status} = subject;
	const optOut = status.topic === null ? 'all' : 'topic';
	return {
		icon: 'done',
		title: texts.undone,
		text: fillIn(subject, texts.undoneText),
		buttons: section(button('other', optOut, status.topic?.isRequired ? texts.stopOthers : texts.unsubscribe)),
	};
}

export function undo(texts: Texts): Html {
	return section(html`<p>${texts.undoQuestion}</p>\n${button('other', 'undo', texts.undo)}`);
}

export function everything(texts: Texts): Html {
	return html`${button('other', 'all', texts.unsubscribeAll)}\n<p class="soft">${texts.everythingMeans}</p>\n`;
}
