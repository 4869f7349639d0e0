for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const link = button.parentElement.querySelector("a");
    const text = decodeURIComponent(link.getAttribute("href").slice(link.getAttribute("href").indexOf(",") + 1));
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
