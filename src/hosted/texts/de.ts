import {html} from '../html.ts';
import type {Texts} from './wording.ts';

export const de: Texts = {
	language: 'de',
	confirmAll: {
		title: brand => `E-Mails von ${brand} abbestellen?`,
		text: address => html`${address} erhält dann keine E-Mails mehr von uns.`,
	},
	confirmTopic: {
		title: topic => `„${topic}“ abbestellen?`,
		text: (address, brand) => html`${brand} schickt diese E-Mails an ${address}.`,
	},
	allMeans: 'Das gilt auch für Belege und Hinweise zu Ihrem Konto.',
	everythingMeans: 'Zu allem gehören auch Belege und Hinweise zu Ihrem Konto.',
	unsubscribe: 'Abbestellen',
	unsubscribeTopic: 'Dieses Thema abbestellen',
	unsubscribeAll: 'Alles abbestellen',
	done: 'Sie sind abgemeldet',
	already: 'Sie sind bereits abgemeldet',
	blocked: 'An diese Adresse gehen keine E-Mails',
	allIsOff: (address, brand) => html`${address} erhält keine E-Mails mehr von ${brand}.`,
	topicIsOff: (address, brand, topic) => html`${address} erhält keine E-Mails mehr zu „${topic}“ von ${brand}.`,
	undo: {question: 'War das ein Versehen?', button: 'Wieder anmelden'},
	undone: {
		title: 'Sie sind wieder angemeldet',
		text: (address, brand) => html`${address} erhält E-Mails von ${brand} wie zuvor.`,
	},
	testMessage: 'Das war eine Testnachricht: Es wurde keine Liste geändert.',
	forged: {
		title: 'Dieser Link funktioniert nicht',
		text: 'Er ist unvollständig oder wurde unterwegs verändert. Öffnen Sie ihn noch einmal aus der E-Mail oder kopieren Sie ihn ganz.',
	},
	expired: {
		title: 'Dieser Link ist abgelaufen',
		text: 'Bitte nehmen Sie den Link aus einer neueren E-Mail.',
	},
	unclear: {
		title: 'Das hat nicht funktioniert',
		text: 'Bitte öffnen Sie den Link aus der E-Mail noch einmal und benutzen Sie die Knöpfe der Seite.',
	},
	tooMany: {
		title: 'Zu viele Versuche',
		text: 'Bitte warten Sie eine Minute und öffnen Sie dann den Link aus der E-Mail noch einmal.',
	},
	nothingChanged: 'Es wurde nichts geändert.',
	help: address => html`Fragen? Schreiben Sie an ${address}.`,
};
