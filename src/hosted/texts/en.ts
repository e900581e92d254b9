import {html} from '../html.ts';
import type {Texts} from './wording.ts';

export const en: Texts = {
	language: 'en',
	confirmAll: {
		title: brand => `Unsubscribe from ${brand}?`,
		text: address => html`${address} will get no more email from us.`,
	},
	confirmTopic: {
		title: topic => `Unsubscribe from “${topic}”?`,
		text: (address, brand) => html`${brand} sends these emails to ${address}.`,
	},
	allMeans: 'That includes receipts and notices about your account.',
	everythingMeans: 'Everything includes receipts and notices about your account.',
	unsubscribe: 'Unsubscribe',
	unsubscribeTopic: 'Unsubscribe from this topic',
	unsubscribeAll: 'Unsubscribe from everything',
	done: 'You are unsubscribed',
	already: 'You are already unsubscribed',
	blocked: 'No email goes to this address',
	allIsOff: (address, brand) => html`${address} will get no more email from ${brand}.`,
	topicIsOff: (address, brand, topic) => html`${address} will get no more emails about “${topic}” from ${brand}.`,
	undo: {question: 'Was this a mistake?', button: 'Subscribe again'},
	undone: {
		title: 'You are subscribed again',
		text: (address, brand) => html`${address} will get email from ${brand} as before.`,
	},
	testMessage: 'This was a test message: no list was changed.',
	forged: {
		title: 'This link does not work',
		text: 'It is incomplete or was changed on its way. Open it again from the email, or copy the whole of it.',
	},
	expired: {
		title: 'This link has expired',
		text: 'Please use the link in a newer email.',
	},
	unclear: {
		title: 'This did not work',
		text: 'Please open the link in the email again and use the buttons of the page.',
	},
	tooMany: {
		title: 'Too many attempts',
		text: 'Please wait a minute, then open the link in the email again.',
	},
	nothingChanged: 'Nothing was changed.',
	help: address => html`Questions? Write to ${address}.`,
};
