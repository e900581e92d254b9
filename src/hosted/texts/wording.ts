import {type Html, html} from '../html.ts';

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
	/** The mail of a required topic: what it is for, and how all other mail is stopped. */
	readonly required: {
		readonly title: (topic: string) => string;
		readonly text: (address: Html, brand: Html) => Html;
		readonly stopOthers: string;
		readonly othersAreOff: (address: Html, brand: Html, topic: Html) => Html;
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
	readonly preferences: {
		/** On the unsubscribe page. */
		readonly link: string;
		readonly title: string;
		readonly saved: string;
		readonly text: (address: Html, brand: Html) => Html;
		readonly topics: string;
		/** A topic that cannot be left. */
		readonly needed: string;
		readonly save: string;
		readonly pause: string;
		readonly pauseMeans: string;
		readonly pausedUntil: (date: string) => string;
		readonly resume: string;
	};
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
	required: {
		title: topic => `You need emails about “${topic}”`,
		text: (address, brand) =>
			html`${brand} sends these emails to ${address} because you need them. You can stop all others.`,
		stopOthers: 'Stop all other emails',
		othersAreOff: (address, brand, topic) =>
			html`${address} will get only emails about “${topic}” and others you need from ${brand}.`,
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
	preferences: {
		link: 'Choose which emails you get',
		title: 'Your emails',
		saved: 'Saved',
		text: (address, brand) => html`Choose which emails ${brand} sends to ${address}.`,
		topics: 'Topics',
		needed: 'You need these emails.',
		save: 'Save',
		pause: 'Pause for 30 days',
		pauseMeans: 'You will get only emails that you need.',
		pausedUntil: date => `You get only emails that you need until ${date}.`,
		resume: 'End the pause',
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
	required: {
		title: topic => `„${topic}“ brauchen Sie`,
		text: (address, brand) =>
			html`${brand} schickt diese E-Mails an ${address}, weil Sie sie brauchen. Alle anderen können Sie abbestellen.`,
		stopOthers: 'Alle anderen abbestellen',
		othersAreOff: (address, brand, topic) =>
			html`${address} erhält von ${brand} nur noch „${topic}“ und andere E-Mails, die Sie brauchen.`,
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
	preferences: {
		link: 'Auswählen, welche E-Mails Sie erhalten',
		title: 'Ihre E-Mails',
		saved: 'Gespeichert',
		text: (address, brand) => html`Wählen Sie, welche E-Mails ${brand} an ${address} schickt.`,
		topics: 'Themen',
		needed: 'Diese E-Mails brauchen Sie.',
		save: 'Speichern',
		pause: '30 Tage pausieren',
		pauseMeans: 'Sie erhalten dann nur E-Mails, die Sie brauchen.',
		pausedUntil: date => `Bis zum ${date} erhalten Sie nur E-Mails, die Sie brauchen.`,
		resume: 'Pause beenden',
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

export const es: Texts = {
	language: 'es',
	confirmAll: {
		title: brand => `¿Dejar de recibir correos de ${brand}?`,
		text: address => html`${address} no recibirá más correos nuestros.`,
	},
	confirmTopic: {
		title: topic => `¿Darse de baja de «${topic}»?`,
		text: (address, brand) => html`${brand} envía estos correos a ${address}.`,
	},
	required: {
		title: topic => `Necesita los correos de «${topic}»`,
		text: (address, brand) =>
			html`${brand} envía estos correos a ${address} porque los necesita. Puede darse de baja de todos los demás.`,
		stopOthers: 'Darse de baja de los demás',
		othersAreOff: (address, brand, topic) =>
			html`${address} solo recibe de ${brand} los correos de «${topic}» y otros que necesita.`,
	},
	allMeans: 'Esto incluye los recibos y los avisos sobre su cuenta.',
	everythingMeans: 'Todo incluye los recibos y los avisos sobre su cuenta.',
	unsubscribe: 'Darse de baja',
	unsubscribeTopic: 'Darse de baja de este tema',
	unsubscribeAll: 'Darse de baja de todo',
	done: 'Se ha dado de baja',
	already: 'Ya se había dado de baja',
	blocked: 'A esta dirección no se envían correos',
	allIsOff: (address, brand) => html`${address} ya no recibe correos de ${brand}.`,
	topicIsOff: (address, brand, topic) => html`${address} ya no recibe correos de ${brand} sobre «${topic}».`,
	undo: {question: '¿Ha sido un error?', button: 'Volver a suscribirse'},
	undone: {
		title: 'La suscripción vuelve a estar activa',
		text: (address, brand) => html`${address} recibe los correos de ${brand} como antes.`,
	},
	preferences: {
		link: 'Elegir qué correos recibe',
		title: 'Sus correos',
		saved: 'Guardado',
		text: (address, brand) => html`Elija qué correos envía ${brand} a ${address}.`,
		topics: 'Temas',
		needed: 'Necesita estos correos.',
		save: 'Guardar',
		pause: 'Pausar 30 días',
		pauseMeans: 'Solo recibirá los correos que necesita.',
		pausedUntil: date => `Hasta el ${date} solo recibe los correos que necesita.`,
		resume: 'Terminar la pausa',
	},
	testMessage: 'Era un mensaje de prueba: no se ha cambiado ninguna lista.',
	forged: {
		title: 'Este enlace no funciona',
		text: 'Está incompleto o se modificó por el camino. Ábralo de nuevo desde el correo o cópielo entero.',
	},
	expired: {
		title: 'Este enlace ha caducado',
		text: 'Utilice el enlace de un correo más reciente.',
	},
	unclear: {
		title: 'No ha funcionado',
		text: 'Abra de nuevo el enlace del correo y utilice los botones de la página.',
	},
	tooMany: {
		title: 'Demasiados intentos',
		text: 'Espere un minuto y abra de nuevo el enlace del correo.',
	},
	nothingChanged: 'No se ha cambiado nada.',
	help: address => html`¿Preguntas? Escriba a ${address}.`,
};

export const fr: Texts = {
	language: 'fr',
	confirmAll: {
		title: brand => `Ne plus recevoir d’e-mails de ${brand}\u00a0?`,
		text: address => html`${address} ne recevra plus aucun e-mail de notre part.`,
	},
	confirmTopic: {
		title: topic => `Se désabonner de «\u00a0${topic}\u00a0»\u00a0?`,
		text: (address, brand) => html`${brand} envoie ces e-mails à ${address}.`,
	},
	required: {
		title: topic => `Vous avez besoin des e-mails «\u00a0${topic}\u00a0»`,
		text: (address, brand) =>
			html`${brand} envoie ces e-mails à ${address} parce que vous en avez besoin. Vous pouvez arrêter tous les autres.`,
		stopOthers: 'Arrêter tous les autres e-mails',
		othersAreOff: (address, brand, topic) =>
			html`${address} ne reçoit plus de ${brand} que les e-mails «\u00a0${topic}\u00a0» et ceux dont vous avez besoin.`,
	},
	allMeans: 'Cela vaut aussi pour les reçus et les messages concernant votre compte.',
	everythingMeans: '«\u00a0Tout\u00a0» comprend aussi les reçus et les messages concernant votre compte.',
	unsubscribe: 'Se désabonner',
	unsubscribeTopic: 'Se désabonner de ce thème',
	unsubscribeAll: 'Se désabonner de tout',
	done: 'Votre désabonnement est enregistré',
	already: 'Ce désabonnement était déjà enregistré',
	blocked: 'Aucun e-mail n’est envoyé à cette adresse',
	allIsOff: (address, brand) => html`${address} ne reçoit plus d’e-mails de ${brand}.`,
	topicIsOff: (address, brand, topic) =>
		html`${address} ne reçoit plus d’e-mails de ${brand} sur «\u00a0${topic}\u00a0».`,
	undo: {question: 'C’était une erreur\u00a0?', button: 'Se réabonner'},
	undone: {
		title: 'Votre réabonnement est enregistré',
		text: (address, brand) => html`${address} reçoit les e-mails de ${brand} comme avant.`,
	},
	preferences: {
		link: 'Choisir les e-mails que vous recevez',
		title: 'Vos e-mails',
		saved: 'Enregistré',
		text: (address, brand) => html`Choisissez les e-mails que ${brand} envoie à ${address}.`,
		topics: 'Thèmes',
		needed: 'Vous avez besoin de ces e-mails.',
		save: 'Enregistrer',
		pause: 'Suspendre pendant 30 jours',
		pauseMeans: 'Vous ne recevrez que les e-mails dont vous avez besoin.',
		pausedUntil: date => `Jusqu’au ${date}, vous ne recevez que les e-mails dont vous avez besoin.`,
		resume: 'Reprendre les e-mails',
	},
	testMessage: 'C’était un message de test\u00a0: aucune liste n’a été modifiée.',
	forged: {
		title: 'Ce lien ne fonctionne pas',
		text: 'Il est incomplet ou a été modifié en route. Rouvrez-le depuis l’e-mail ou copiez-le en entier.',
	},
	expired: {
		title: 'Ce lien a expiré',
		text: 'Veuillez utiliser le lien d’un e-mail plus récent.',
	},
	unclear: {
		title: 'Cela n’a pas fonctionné',
		text: 'Veuillez rouvrir le lien de l’e-mail et utiliser les boutons de la page.',
	},
	tooMany: {
		title: 'Trop de tentatives',
		text: 'Veuillez attendre une minute, puis rouvrir le lien de l’e-mail.',
	},
	nothingChanged: 'Rien n’a été modifié.',
	help: address => html`Des questions\u00a0? Écrivez à ${address}.`,
};
