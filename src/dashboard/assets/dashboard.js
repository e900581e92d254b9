// Adds keyboard shortcuts, copying, and previews while typing. Everything else works without scripts.
(() => {
	let prefix = '';

	const rows = () => [...document.querySelectorAll('main a[data-row]')];

	function moveFocus(offset) {
		const links = rows();
		const index = links.indexOf(document.activeElement);
		links[Math.min(links.length - 1, Math.max(0, index + offset))]?.focus();
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
		const page = prefix === 'g' && document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
		if (page) {
			page.click();
		} else if (key === '/') {
			const field = document.querySelector('main input[type="search"]');
			const home = document.querySelector('.brand a');
			field ? field.focus() : location.assign(`${home?.href ?? '/'}#search`);
		} else if (key === 'j' || key === 'k') {
			moveFocus(key === 'j' ? 1 : -1);
		} else if (key === '?') {
			document.querySelector('#keys')?.showModal();
		} else {
			prefix = key;
			return;
		}
		prefix = '';
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
	 * Submits the edited text to its frame. Each time, a new frame replaces the old one once it has loaded: another
	 * page in the same frame would add an entry to the browser's history.
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

	/** Shows what only works with scripts; runs again for each part that was fetched. */
	function showButtons(root) {
		for (const button of root.querySelectorAll('[data-copy]')) {
			button.hidden = !navigator.clipboard;
		}
	}
	showButtons(document);
	for (const button of document.querySelectorAll('[data-preview], [data-live]')) {
		button.hidden = true;
	}
	if (document.querySelector('iframe[name]:not([src])')) {
		preview(document.querySelector('[data-preview]'));
	}
	document.addEventListener('htmx:after:swap', () => showButtons(document));
	if (location.hash === '#search') {
		document.querySelector('main input[type="search"]')?.focus();
	}
})();

// Passkeys: a form contains the request to the browser, and submits its response.
(() => {
	const bytesOf = text =>
		Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), char => char.charCodeAt(0));
	const textOf = buffer =>
		btoa(String.fromCharCode(...new Uint8Array(buffer)))
			.replace(/\+/g, '-')
			.replace(/\//g, '_')
			.replace(/=+$/, '');

	async function requestCredential(kind, options) {
		const withBytes = list => list?.map(credential => ({...credential, id: bytesOf(credential.id)}));
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
			field.value = JSON.stringify(
				await requestCredential(field.dataset.passkey, JSON.parse(field.dataset.options)),
			);
			form.requestSubmit();
		} catch (error) {
			form.querySelector('[role="alert"]').textContent =
				error.name === 'InvalidStateError'
					? 'This device already has one of your passkeys.'
					: 'Nothing was changed: the request was canceled, or the browser has no matching passkey.';
		}
	});

	for (const part of document.querySelectorAll('[data-passkeys]')) {
		part.hidden = !window.PublicKeyCredential;
	}
})();
