import {html} from '../html.ts';
import type {Texts} from './wording.ts';

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
