// Passkeys: the browser makes or shows one, and the form sends what it says.
"use strict";

const form = document.querySelector("form[data-passkey]");
const button = form?.querySelector("[data-passkey-button]");
const told = form?.querySelector("[data-passkey-told]");

const say = text => {
  told.textContent = text;
  told.hidden = false;
};

const ask = async () => {
  const options = JSON.parse(form.dataset.passkey).publicKey;
  const isNew = "passkeyNew" in form.dataset;
  const publicKey = isNew
    ? PublicKeyCredential.parseCreationOptionsFromJSON(options)
    : PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = isNew
    ? await navigator.credentials.create({ publicKey })
    : await navigator.credentials.get({ publicKey });
  form.elements.credential.value = JSON.stringify(credential.toJSON());
  form.submit();
};

if (form && button) {
  if (globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    button.disabled = false;
    button.addEventListener("click", () => {
      if (!form.reportValidity()) return;
      ask().catch(() => say("The browser was given no passkey. Try again, or use another way."));
    });
  } else {
    say("This browser has no passkeys, or the console is not reached over TLS.");
  }
}
