import type {OptOutAction, SubscriptionStatus} from '../outcome/unsubscribe.ts';
import {type Html, html, nameMarkup, plainName} from './html.ts';
import type {Brand, Icon, Page} from './page.ts';
import type {Texts} from './texts/wording.ts';

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
export function unsubscribePage(subject: Subject): Page {
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
${view.buttons && form(subject, view.buttons)}`,
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
		text: texts.topicIsOff(who, sender, name),
		buttons: html`${topic.block === 'page' ? undo(texts) : null}${section(everything(texts))}`,
	};
}

function undone({texts, brand, address, status}: Subject): View {
	const again = status.topic === null ? 'all' : 'topic';
	return {
		icon: 'done',
		title: texts.undone.title,
		text: texts.undone.text(addressMarkup(address), nameMarkup(brand.name)),
		buttons: section(button('other', again, texts.unsubscribe)),
	};
}

/** Posts back to where the page came from: behind a proxy only the browser knows where that is. */
function form({token}: Subject, buttons: Html): Html {
	return html`<form method="post">
<input type="hidden" name="token" value="${token}">
${buttons}</form>`;
}

function button(kind: 'main' | 'other', action: OptOutAction, label: string): Html {
	return html`<button class="${kind}" name="action" value="${action}">${label}</button>\n`;
}

/** Choices that belong together. */
function section(content: Html): Html {
	return html`<section>\n${content}</section>\n`;
}

function undo(texts: Texts): Html {
	return section(html`<p>${texts.undo.question}</p>\n${button('other', 'undo', texts.undo.button)}`);
}

function everything(texts: Texts): Html {
	return html`${button('other', 'all', texts.unsubscribeAll)}\n<p class="soft">${texts.everythingMeans}</p>\n`;
}

function addressMarkup(address: string): Html {
	return html`<bdi class="address">${plainName(address)}</bdi>`;
}
