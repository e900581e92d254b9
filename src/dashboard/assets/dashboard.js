// What pages do more where scripts run: keys, copying, previews while one types. Everything works without it.
(() => {
	let begun = '';

	const rows = () => [...document.querySelectorAll('main a[data-row]')];

	function step(by) {
		const all = rows();
		const at = all.indexOf(document.activeElement);
		all[Math.min(all.length - 1, Math.max(0, at + by))]?.focus();
	}

	function isTyping(element) {
		return (
			element instanceof HTMLElement &&
			(element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName))
		);
	}

	document.addEventListener('keydown', event => {
		if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
			return;
		}
		const {key} = event;
		const page = begun === 'g' && document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
		if (page) {
			page.click();
		} else if (key === '/') {
			const field = document.querySelector('main input[type="search"]');
			field ? field.focus() : location.assign('/messages#search');
		} else if (key === 'j' || key === 'k') {
			step(key === 'j' ? 1 : -1);
		} else if (key === '?') {
			document.querySelector('#keys')?.showModal();
		} else {
			begun = key;
			return;
		}
		begun = '';
		event.preventDefault();
	});

	document.addEventListener('click', async event => {
		const button = event.target.closest?.('[data-copy]');
		if (button) {
			await navigator.clipboard.writeText(button.dataset.copy);
			button.textContent = 'Copied';
			button.ariaLabel = 'Copied';
		}
	});

	document.addEventListener('mouseover', event => {
		const cell = event.target.closest?.('td.cut, td.details small');
		if (cell && cell.scrollWidth > cell.clientWidth) {
			cell.title = cell.innerText;
		}
	});

	/**
	 * Sends what is being edited to its frame. A new frame each time: another page of the old one would be a step of the history. The old
	 * one stays until the new one has loaded.
	 */
	function preview(button) {
		const old = document.getElementsByName(button.formTarget)[0];
		const next = old.cloneNode();
		next.removeAttribute('src');
		next.hidden = true;
		next.name = `${old.name}+`;
		button.formTarget = next.name;
		old.after(next);
		next.addEventListener('load', () => {
			next.hidden = false;
			while (next.previousElementSibling?.localName === 'iframe') {
				next.previousElementSibling.remove();
			}
		});
		button.form.requestSubmit(button);
	}

	let typing;
	document.addEventListener('input', event => {
		const button = event.target.form?.querySelector('[data-preview]');
		if (button) {
			clearTimeout(typing);
			typing = setTimeout(() => preview(button), 600);
		}
	});

	/** Shows what only works with script; runs again for each part that was fetched. */
	function wake(root) {
		for (const button of root.querySelectorAll('[data-copy]')) {
			button.hidden = !navigator.clipboard;
		}
	}
	wake(document);
	for (const button of document.querySelectorAll('[data-preview], [data-live]')) {
		button.hidden = true;
	}
	const unseen = document.querySelector('iframe[name]:not([src])');
	if (unseen) {
		preview(document.querySelector('[data-preview]'));
	}
	document.addEventListener('htmx:after:swap', () => wake(document));
	if (location.hash === '#search') {
		document.querySelector('main input[type="search"]')?.focus();
	}
})();

// Passkeys: a form holds what the browser is asked, and sends what it answered.
(() => {
	const bytesOf = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), one => one.charCodeAt(0));
	const textOf = buffer =>
		btoa(String.fromCharCode(...new Uint8Array(buffer)))
			.replace(/\+/g, '-')
			.replace(/\//g, '_')
			.replace(/=+$/, '');

	async function ask(kind, options) {
		const withBytes = list => list?.map(one => ({...one, id: bytesOf(one.id)}));
		const publicKey = {
			...options,
			challenge: bytesOf(options.challenge),
			...(options.user && {user: {...options.user, id: bytesOf(options.user.id)}}),
			...(options.excludeCredentials && {excludeCredentials: withBytes(options.excludeCredentials)}),
			...(options.allowCredentials && {allowCredentials: withBytes(options.allowCredentials)}),
		};
		const {id, rawId, type, response} = await navigator.credentials[kind]({publicKey});
		const names = ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle'];
		const parts = names.flatMap(name => (response[name] ? [[name, textOf(response[name])]] : []));
		return {id, rawId: textOf(rawId), type, clientExtensionResults: {}, response: Object.fromEntries(parts)};
	}

	document.addEventListener('submit', async event => {
		const form = event.target;
		const field = form.querySelector('[data-passkey]');
		if (field?.value !== '') {
			return;
		}
		event.preventDefault();
		try {
			field.value = JSON.stringify(await ask(field.dataset.passkey, JSON.parse(field.dataset.options)));
			form.requestSubmit();
		} catch (error) {
			form.querySelector('[role="alert"]').textContent =
				error.name === 'InvalidStateError'
					? 'This device has a passkey of yours already.'
					: 'Nothing was done: the browser was told to stop, or has no such passkey.';
		}
	});

	for (const part of document.querySelectorAll('[data-passkeys]')) {
		part.hidden = !window.PublicKeyCredential;
	}
})();
