import {storeTime} from '../kit/time.ts';
import {Type} from '../mail/type.ts';
import {
	type Choice,
	hasEffect,
	type PreferenceAction,
	readChoices,
	readStatus,
	type SubscriptionStatus,
	type Unsubscription,
} from '../outcome/unsubscribe.ts';
import {noticePage, type Page} from './branded-page.ts';
import type {Field} from './form.ts';
import {filled, type Html, html, nameMarkup} from './html.ts';
import {addressMarkup, button, type LinkPage, postForm, section, type Visit} from './linked.ts';
import type {Texts} from './texts/wording.ts';
import {everything, type UnsubscribeOptions, undo} from './unsubscribe.ts';

/** Octets; enough for the codes of a thousand topics. */
const formLimit = 128 * 1024;

const actions = ['save', 'pause', 'resume', 'all', 'undo'] as const;
type Action = (typeof actions)[number];

/** The hosted preference page: subscribe to public topics, pause, or unsubscribe from everything. */
export const preferencePages = ({reader, unsubscribe, clock}: UnsubscribeOptions): LinkPage => ({
	path: '/preferences',
	formLimit,
	show: {
		summary: 'Show the preference page',
		description: 'The page that `{{ preferences_url }}` in a message opens. Changes nothing.',
		meaning: 'A page with the public topics of the workspace, a pause, and unsubscribing from everything.',
	},
	act: {
		summary: 'Update preferences',
		description:
			'Submitted by the page itself. The token is in the query string or in the form. Unknown fields are ignored.',
		meaning: 'A page with the current choices.',
		fields: {
			action: Type.Enum([...actions], {
				description:
					'`save` stores the choice of topics, `pause` stops all but required mail for 30 days, `resume` ends the pause, `all` unsubscribes from everything, `undo` reverts `all`.',
			}),
			topic: Type.Optional(Type.String({description: 'The code of a selected topic; repeated for each one.'})),
			shown: Type.Optional(
				Type.String({description: 'The codes of the topics that the page offered, separated by spaces.'}),
			),
		},
		example: {action: 'save', topic: 'newsletter', shown: 'newsletter offers'},
	},
	async respond(visit, form, fields) {
		const action = form && actions.find(name => name === form.action);
		if (action === undefined) {
			return noticePage('unclear', 400, visit.texts, visit.brand);
		}
		// A choice applies to the person, not to the message whose link was followed.
		const person = {...visit.linked, topicId: null};
		const now = storeTime(clock.now());
		const before = {status: await readStatus(reader, person), ...(await readChoices(reader, person, now))};
		const change = action && toChange(action, before, fields);
		if (!change) {
			return preferencePage(visit, before, action);
		}
		const status = await unsubscribe({...person, action: change, via: 'page', at: now});
		return preferencePage(visit, {status, ...(await readChoices(reader, person, now))}, action);
	},
});

type State = {
	readonly status: SubscriptionStatus;
	readonly choices: readonly Choice[];
	readonly pausedUntil: string | null;
};

/** Returns the change to write, or `null` if it changes nothing or the address is suppressed entirely. */
function toChange(action: Action, state: State, fields: readonly Field[]): Unsubscription['action'] | null {
	const {status, pausedUntil} = state;
	if (action === 'all' || action === 'undo') {
		return hasEffect(status, action) ? action : null;
	}
	if (status.all !== null) {
		return null;
	}
	if (action === 'save') {
		return toUpdate(state, fields);
	}
	return action === 'pause' || pausedUntil !== null ? action : null;
}

/** Changes only topics that the page showed: one that was created since then is left alone. */
function toUpdate({choices}: State, fields: readonly Field[]): PreferenceAction | null {
	const valuesOf = (name: string) => fields.filter(field => field.name === name).map(({value}) => value ?? '');
	const shownCodes = new Set(valuesOf('shown').flatMap(codes => codes.split(' ')));
	const chosen = new Set(valuesOf('topic'));
	const offered = choices.filter(choice => shownCodes.has(choice.code) && isOffered(choice));
	const update = {
		in: offered.filter(({code, isOut}) => isOut && chosen.has(code)).map(({code}) => code),
		out: offered.filter(({code, isOut}) => !isOut && !chosen.has(code)).map(({code}) => code),
	};
	return update.in.length + update.out.length > 0 ? update : null;
}

/**
 * A required topic is offered only to people who opted out before it was required, so that they can subscribe again.
 */
const isOffered = ({isRequired, isOut}: Choice): boolean => !isRequired || isOut;

function preferencePage({texts, brand, linked, token}: Visit, state: State, action: Action | null): Page {
	const {status, choices, pausedUntil} = state;
	const names = {address: addressMarkup(linked.address), brand: nameMarkup(brand.name)};
	const testNotice = status.isTest && action !== null ? html`<p class="soft">${texts.testMessage}</p>` : null;
	const common = {status: 200, texts, brand};
	if (status.all !== null) {
		return {
			...common,
			icon: 'done',
			title: status.all === 'other' ? texts.blocked : action === 'all' ? texts.done : texts.already,
			content: html`<p>${filled(texts.allIsOff, names)}</p>${testNotice}${status.all === 'page' ? postForm(token, undo(texts)) : null}`,
		};
	}
	const pauseControls =
		pausedUntil === null
			? html`${button('other', 'pause', texts.pause)}<p class="soft">${texts.pauseMeans}</p>\n`
			: html`<p>${filled(texts.pausedUntil, {date: formatDate(texts, pausedUntil)})}</p>\n${button('other', 'resume', texts.resume)}`;
	return {
		...common,
		icon: action === null ? 'letter' : 'done',
		title: action === null ? texts.preferences : texts.saved,
		content: html`<p>${filled(texts.preferencesText, names)}</p>${testNotice}
${postForm(
	token,
	html`${choices.length > 0 ? section(topicsMarkup(texts, choices)) : null}${section(pauseControls)}${section(everything(texts))}`,
)}`,
	};
}

function topicsMarkup(texts: Texts, choices: readonly Choice[]): Html {
	const items = choices.map(choice => {
		const {code, name, description, isOut} = choice;
		const label = html`<span>${nameMarkup(name)}${description && html`<small>${nameMarkup(description)}</small>`}${
			isOffered(choice) ? null : html`<small>${texts.needed}</small>`
		}</span>`;
		return isOffered(choice)
			? html`<label class="choice"><input type="checkbox" name="topic" value="${code}"${isOut ? null : html` checked`}>${label}</label>\n`
			: html`<p class="choice">${label}</p>\n`;
	});
	const codes = choices.filter(isOffered).map(({code}) => code);
	return html`<fieldset><legend>${texts.topics}</legend>
${items}</fieldset>
<input type="hidden" name="shown" value="${codes.join(' ')}">
${codes.length > 0 ? button('main', 'save', texts.save) : null}`;
}

const formatDate = ({language}: Texts, time: string): string =>
	new Intl.DateTimeFormat(language, {dateStyle: 'long', timeZone: 'UTC'}).format(Date.parse(time));
