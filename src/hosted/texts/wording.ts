import type {Html} from '../html.ts';

/** What the hosted pages say, in one language. Names come as markup for sentences and as plain text for headings. */
export type Texts = {
	/** The value of `lang`. */
	readonly language: Language;
	readonly confirmAll: {
		readonly title: (brand: string) => string;
		readonly text: (address: Html) => Html;
	};
	readonly confirmTopic: {
		readonly title: (topic: string) => string;
		readonly text: (address: Html, brand: Html) => Html;
	};
	/** What the hard block also stops: after `confirmAll.text`, and beside the button `unsubscribeAll`. */
	readonly allMeans: string;
	readonly everythingMeans: string;
	readonly unsubscribe: string;
	readonly unsubscribeTopic: string;
	readonly unsubscribeAll: string;
	readonly done: string;
	readonly already: string;
	/** The address gets nothing, and not because of this page. */
	readonly blocked: string;
	readonly allIsOff: (address: Html, brand: Html) => Html;
	readonly topicIsOff: (address: Html, brand: Html, topic: Html) => Html;
	readonly undo: {readonly question: string; readonly button: string};
	readonly undone: {readonly title: string; readonly text: (address: Html, brand: Html) => Html};
	readonly testMessage: string;
	readonly forged: Notice;
	readonly expired: Notice;
	readonly unclear: Notice;
	readonly tooMany: Notice;
	readonly nothingChanged: string;
	readonly help: (address: Html) => Html;
};

type Notice = {readonly title: string; readonly text: string};

export type Language = 'en' | 'de' | 'fr' | 'es';
