import type {Knex} from 'knex';
import {describe} from '../api/describe.ts';
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
import {type Brand, type Icon, noticePage, type Page} from './branded-page.ts';
import {type Form, formTypes} from './form.ts';
import {type Html, html, nameMarkup, plainName} from './html.ts';
import {addressMarkup, button, type LinkPage, linkFaults, postForm, section, tokenSchema} from './linked.ts';
import type {Texts} from './texts/wording.ts';

/** A longer body is no form of ours, nor a one-click request. */
const formLimit = 8 * 1024;

type UnsubscribeOptions = {
	readonly reader: Knex;
	/** Resolves when the change is on stable storage. */
	readonly unsubscribe: (item: Unsubscription) => Promise<SubscriptionStatus>;
	readonly clock: Clock;
};

/** The hosted unsubscribe page, and the one-click action of RFC 8058. */
export const unsubscribePages = ({reader, unsubscribe, clock}: UnsubscribeOptions): LinkPage => ({
	path: '/unsubscribe',
	formLimit,
	schemas: {show: showSchema, act: actSchema},
	async answer({linked, token, texts, brand}, form) {
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
		return unsubscribePage({texts, brand, address: linked.address, token, action, status});
	},
});

const showSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Show the unsubscribe page',
		description: 'Where the unsubscribe link of a mail leads to. Changes nothing.',
		answer: [
			200,
			'What the recipient can do, with the branding of the workspace and in the language of the recipient.',
			null,
		],
		pages: linkFaults,
	}),
	querystring: Type.Object({token: tokenSchema}),
};
const actSchema = {
	...describe({
		tag: 'Hosted pages',
		summary: 'Unsubscribe with one click',
		description: [
			'The action of RFC 8058, posted by mail programs and by the page itself. The token stands in the query or in the form.',
			'Opts the recipient out of the topic of the mail, or of everything where it has none.',
			'Unknown fields are ignored, and so is an empty body.',
		].join(' '),
		answer: [200, 'The choice as it is now, as a page; repeating the request changes nothing.', null],
		pages: {...linkFaults, 400: 'The token is forged or missing, or the action does not exist.'},
	}),
	querystring: Type.Object({token: Type.Optional(tokenSchema)}),
	body: Type.Object(
		{
			token: Type.Optional(tokenSchema),
			action: Type.Optional(
				Type.Enum(['topic', 'all', 'undo'], {
					description:
						'`topic`: out of the topic of the mail (the default); `all`: of everything; `undo`: takes back what this page did.',
				}),
			),
			'List-Unsubscribe': Type.Optional(Type.String({description: '`One-Click`, as mail programs post it.'})),
		},
		{examples: [{'List-Unsubscribe': 'One-Click'}]},
	),
	consumes: [...formTypes],
};

/** Undefined: not one of the topics. */
function actionOf({action}: Form): OptOutAction | undefined {
	if (action === null) {
		return 'topic';
	}
	return action === 'topic' || action === 'all' || action === 'undo' ? action : undefined;
}

/** What the page is about. */
type Subject = {
	readonly texts: Texts;
	readonly brand: Brand;
	/** The recipient's address: it is he who reads the page. */
	readonly address: string;
	/** Goes back with the page's own form. */
	readonly token: string;
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
<p class="soft"><a href="preferences?token=${subject.token}">${texts.preferences.link}</a></p>`,
	};
}

type View = {readonly icon: Icon; readonly title: string; readonly text: Html; readonly buttons: Html | null};

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

function confirm({texts, brand, address, status: {topic}}: Subject): View {
	const [who, sender] = [addressMarkup(address), nameMarkup(brand.name)];
	return topic === null
		? {
				icon: 'letter',
				title: texts.confirmAll.title(plainName(brand.name)),
				text: html`${texts.confirmAll.text(who)} ${texts.allMeans}`,
				buttons: section(button('main', 'all', texts.unsubscribe)),
			}
		: topic.isRequired
			? {
					icon: 'letter',
					title: texts.required.title(plainName(topic.name)),
					text: html`${topic.description && html`${nameMarkup(topic.description)}</p>\n<p>`}${texts.required.text(who, sender)}`,
					buttons: section(html`${button('main', 'topic', texts.required.stopOthers)}${everything(texts)}`),
				}
			: {
					icon: 'letter',
					title: texts.confirmTopic.title(plainName(topic.name)),
					text: texts.confirmTopic.text(who, sender),
					buttons: section(html`${button('main', 'topic', texts.unsubscribeTopic)}${everything(texts)}`),
				};
}

function outOfAll({texts, brand, address, action, status}: Subject, byPage: boolean): View {
	const title = action === null || action === 'undo' ? texts.already : texts.done;
	return {
		icon: 'done',
		title: byPage ? title : texts.blocked,
		text: texts.allIsOff(addressMarkup(address), nameMarkup(brand.name)),
		buttons: status.all === 'page' ? undo(texts) : null,
	};
}

function outOfTopic({texts, brand, address, action}: Subject, topic: NonNullable<SubscriptionStatus['topic']>): View {
	const [who, sender, name] = [addressMarkup(address), nameMarkup(brand.name), nameMarkup(topic.name)];
	return {
		icon: 'done',
		title: action === null || action === 'undo' ? texts.already : texts.done,
		text: topic.isRequired ? texts.required.othersAreOff(who, sender, name) : texts.topicIsOff(who, sender, name),
		buttons: html`${topic.block === 'page' ? undo(texts) : null}${section(everything(texts))}`,
	};
}

function undone({texts, brand, address, status}: Subject): View {
	const again = status.topic === null ? 'all' : 'topic';
	return {
		icon: 'done',
		title: texts.undone.title,
		text: texts.undone.text(addressMarkup(address), nameMarkup(brand.name)),
		buttons: section(button('other', again, status.topic?.isRequired ? texts.required.stopOthers : texts.unsubscribe)),
	};
}

function undo(texts: Texts): Html {
	return section(html`<p>${texts.undo.question}</p>\n${button('other', 'undo', texts.undo.button)}`);
}

function everything(texts: Texts): Html {
	return html`${button('other', 'all', texts.unsubscribeAll)}\n<p class="soft">${texts.everythingMeans}</p>\n`;
}
