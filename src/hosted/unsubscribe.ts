import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {
	changes,
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

/** A longer body is no form of ours, nor a one-click request. */
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
		description: 'Where the unsubscribe link of a mail leads to. Changes nothing.',
		answer: 'What the recipient can do, with the branding of the workspace and in the language of the recipient.',
	},
	act: {
		summary: 'Unsubscribe with one click',
		description: [
			'The action of RFC 8058, posted by mail programs and by the page itself. The token stands in the query or in the form.',
			'Opts the recipient out of the topic of the mail, or of everything where it has none.',
			'Unknown fields are ignored, and so is an empty body.',
		].join(' '),
		answer: 'The choice as it is now, as a page; repeating the request changes nothing.',
		fields: {
			action: Type.Optional(
				Type.Enum(['topic', 'all', 'undo'], {
					description:
						'`topic`: out of the topic of the mail (the default); `all`: of everything; `undo`: takes back what this page did.',
				}),
			),
			'List-Unsubscribe': Type.Optional(Type.String({description: '`One-Click`, as mail programs post it.'})),
		},
		example: {'List-Unsubscribe': 'One-Click'},
	},
	async answer(visit, form) {
		const {linked, texts, brand} = visit;
		const action = form && actionOf(form);
		if (action === undefined) {
			return noticePage('unclear', 400, texts, brand);
		}
		let status = await readStatus(reader, linked);
		// What changes nothing need not wait for the one that writes: a link may be posted to as often as anyone likes.
		if (form && action && changes(status, action)) {
			const via = form.action === null ? 'one-click' : 'page';
			status = await unsubscribe({...linked, action, via, at: storeTime(clock.now())});
		}
		return unsubscribePage({...visit, action, status});
	},
});

/** Undefined: not one of the topics. */
function actionOf({action}: Form): OptOutAction | undefined {
	if (action === null) {
		return 'topic';
	}
	return action === 'topic' || action === 'all' || action === 'undo' ? action : undefined;
}

/** What the page is about. */
type Subject = Visit & {
	/** What the recipient, or his mail program, has just asked for; null: he only looks. */
	readonly action: OptOutAction | null;
	/** What holds now. */
	readonly status: SubscriptionStatus;
};

/** The page of a link that works: what can be done, or what was done and how to take it back. */
function unsubscribePage(subject: Subject): Page {
	const {texts, brand, status, action} = subject;
	const view = viewOf(subject);
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

function viewOf(subject: Subject): View {
	const {status, action} = subject;
	// The links of a test message change nothing: its page shows what would be.
	const isOut = status.isTest && (action === 'topic' || action === 'all');
	if (status.all !== null || (isOut && (action === 'all' || status.topic === null))) {
		return outOfAll(subject, status.all !== 'other');
	}
	if (status.topic !== null && (status.topic.block !== null || isOut)) {
		return outOfTopic(subject, status.topic);
	}
	return action === 'undo' ? undone(subject) : confirm(subject);
}

/** A sentence with the names that it is about. */
function say({brand, linked: {address}, status: {topic}}: Subject, text: string): Html {
	const name = nameMarkup(topic?.name ?? '');
	return filled(text, {address: addressMarkup(address), brand: nameMarkup(brand.name), topic: name});
}

function confirm(subject: Subject): View {
	const {texts, brand, status} = subject;
	const {topic} = status;
	if (topic === null) {
		return {
			icon: 'letter',
			title: filled(texts.confirmAll, {brand: plainName(brand.name)}),
			text: html`${say(subject, texts.confirmAllText)} ${texts.allMeans}`,
			buttons: section(button('main', 'all', texts.unsubscribe)),
		};
	}
	const {isRequired, description} = topic;
	const about = isRequired && description ? html`${nameMarkup(description)}</p>\n<p>` : null;
	return {
		icon: 'letter',
		title: filled(isRequired ? texts.required : texts.confirmTopic, {topic: plainName(topic.name)}),
		text: html`${about}${say(subject, isRequired ? texts.requiredText : texts.confirmTopicText)}`,
		buttons: section(
			html`${button('main', 'topic', isRequired ? texts.stopOthers : texts.unsubscribeTopic)}${everything(texts)}`,
		),
	};
}

function outOfAll(subject: Subject, byPage: boolean): View {
	const {texts, action, status} = subject;
	const title = action === null || action === 'undo' ? texts.already : texts.done;
	return {
		icon: 'done',
		title: byPage ? title : texts.blocked,
		text: say(subject, texts.allIsOff),
		buttons: status.all === 'page' ? undo(texts) : null,
	};
}

function outOfTopic(subject: Subject, {block, isRequired}: NonNullable<SubscriptionStatus['topic']>): View {
	const {texts, action} = subject;
	return {
		icon: 'done',
		title: action === null || action === 'undo' ? texts.already : texts.done,
		text: say(subject, isRequired ? texts.othersAreOff : texts.topicIsOff),
		buttons: html`${block === 'page' ? undo(texts) : null}${section(everything(texts))}`,
	};
}

function undone(subject: Subject): View {
	const {texts, status} = subject;
	const again = status.topic === null ? 'all' : 'topic';
	return {
		icon: 'done',
		title: texts.undone,
		text: say(subject, texts.undoneText),
		buttons: section(button('other', again, status.topic?.isRequired ? texts.stopOthers : texts.unsubscribe)),
	};
}

export function undo(texts: Texts): Html {
	return section(html`<p>${texts.undoQuestion}</p>\n${button('other', 'undo', texts.undo)}`);
}

export function everything(texts: Texts): Html {
	return html`${button('other', 'all', texts.unsubscribeAll)}\n<p class="soft">${texts.everythingMeans}</p>\n`;
}
