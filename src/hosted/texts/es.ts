import {html} from '../html.ts';
import type {Texts} from './wording.ts';

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
